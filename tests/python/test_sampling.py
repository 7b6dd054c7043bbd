"""Tests forward passes that are not training batches: a policy that samples before it
trains, reference models, generate()."""

import math

import models
import numpy as np
import pytest
import torch

import entropyscan as es

T = 16
UNIFORM = math.lgamma(T + 1) / T  # entropy of heads with uniform attention


def policy():
    """Makes a model with nearly uniform attention, which the tests use as a policy."""
    torch.manual_seed(2)
    model = models.gpt2()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "c_attn" in name:
                weight *= 1e-3
    return model.train()


def recorded(path, step):
    """Calls step(model) for one training step and records it. Returns the step's
    entropies and context length."""
    model = policy()
    with es.watch(model, path) as rec:
        step(model)
        rec.step(loss=1.0)
    assert rec.trouble is None
    run = es.open(path)
    return run.entropy()[0], run.info["ctx"]


def ids(n):
    return torch.randint(3, 40, (2, n))


def sample(model):
    with torch.no_grad():
        model(input_ids=ids(4))


def train(model):
    batch = ids(T)
    model(input_ids=batch, labels=batch).loss.backward()


PASSES = {
    "sampled before": (sample, train),
    "a reference after": (train, sample),
    "both": (sample, sample, train, sample),
    "generated before": (lambda m: m.generate(ids(3), max_new_tokens=2, pad_token_id=0), train),
}


@pytest.mark.parametrize("name", PASSES)
def test_the_pass_with_gradients_is_recorded(name, run_file):
    def step(model):
        for one in PASSES[name]:
            one(model)

    entropy, ctx = recorded(run_file, step)
    assert ctx == T
    assert np.abs(entropy - UNIFORM).max() <= 1e-4


def test_a_step_that_has_only_passes_without_gradients_is_recorded(run_file):
    entropy, ctx = recorded(run_file, sample)
    assert ctx == 4
    assert np.abs(entropy - math.lgamma(5) / 4).max() <= 1e-4


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_after_a_sample_is_recorded(reentrant, run_file):
    def step(model):
        kind = {"use_reentrant": reentrant}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kind)
        model.enable_input_require_grads()
        sample(model)
        train(model)

    entropy, ctx = recorded(run_file, step)
    assert ctx == T
    assert np.abs(entropy - UNIFORM).max() <= 1e-4


def test_generating_in_training_mode_does_not_count(run_file):
    model = policy()
    with es.watch(model, run_file) as rec:
        train(model)
        rec.step(loss=1.0)
        model.generate(ids(3), max_new_tokens=2, pad_token_id=0)
        with pytest.warns(RuntimeWarning, match="no attention was seen"):
            rec.step(loss=1.0)
    assert es.open(run_file).steps().tolist() == [0]


def test_generate_is_restored_after_the_watch(run_file):
    from transformers.generation.utils import GenerationMixin

    before = GenerationMixin.generate
    with es.watch(policy(), run_file):
        assert GenerationMixin.generate is not before
    assert GenerationMixin.generate is before
