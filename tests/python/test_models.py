"""Compares recorded entropies of transformers models with entropies of the models' own
attention weights."""

import formula
import models
import numpy as np
import pytest
import torch

import entropyscan as es


def own_weights(model, given):
    """Returns the weights (B,H,T,S) of each layer from the model's eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**given, output_attentions=True)
    model.set_attn_implementation(before)
    return out.attentions


def of_keys(a):
    """Normalises weights over the keys alone, without the weight of a learnt sink."""
    return a / a.sum(-1, keepdim=True)


CASES = [
    ("gpt2", "sdpa"),
    ("gpt2", "eager"),
    ("gpt_neox", "sdpa"),
    ("gpt_neox", "eager"),
    ("llama", "sdpa"),
    ("llama", "eager"),
    ("llama", "flex_attention"),
    ("qwen", "sdpa"),
    ("qwen", "eager"),
    ("gemma", "eager"),
    ("gpt_oss", "eager"),
    ("bert", "sdpa"),
    ("bert", "eager"),
    ("vit", "sdpa"),
    ("vit", "eager"),
]


@pytest.mark.parametrize("padding", [0, 7])
@pytest.mark.parametrize("name, implementation", CASES)
def test_entropies_are_those_of_the_models_own_weights(
    name, implementation, padding, run_file
):
    if name == "vit" and padding:
        pytest.skip("images have no padding")
    if implementation == "flex_attention" and torch.__version__ < "2.7":
        pytest.skip(f"flex attention of torch {torch.__version__} has no heads 12 wide")
    model = models.spread(models.MAKERS[name]()).double().float().train()
    given = models.inputs(name, padding=padding)
    expected = own_weights(model.double(), {k: _double(v) for k, v in given.items()})
    model.float().set_attn_implementation(implementation)
    counted = given["attention_mask"].bool() if padding else None
    expected = torch.stack(
        [formula.head_entropy(of_keys(a), counted) for a in expected]
    )
    assert expected.std() > 0.01  # heads differ
    with es.watch(model, run_file) as rec:
        has_backward = implementation != "flex_attention"  # has no backward on the CPU
        with torch.set_grad_enabled(has_backward):
            loss = model(**given).loss
        if has_backward:
            loss.backward()
        rec.step(loss=loss)
    assert rec.trouble is None
    run = es.open(run_file)
    entropy = run.entropy()
    assert entropy.shape == (1, *expected.shape)
    assert np.abs(entropy[0] - expected.numpy()).max() <= 1e-5


def _double(value):
    return value.double() if value.is_floating_point() else value


def test_the_share_of_a_learnt_sink_is_the_missing_mass(run_file):
    model = models.spread(models.gpt_oss()).train()
    model.set_attn_implementation("eager")
    given = models.inputs("gpt_oss")
    expected = [1 - a.double().sum(-1).mean((0, 2)) for a in own_weights(model, given)]
    with es.watch(model, run_file) as rec:
        model(**given)
        rec.step()
    missing = es.open(run_file).values("missing_mass")
    assert np.abs(missing[0] - torch.stack(expected).numpy()).max() <= 1e-5


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_every_step_of_a_training_agrees_with_output_attentions(
    implementation, run_file
):
    model = models.gpt2(attn_implementation=implementation).train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-2)
    expected, losses = [], []
    with es.watch(model, run_file) as rec:
        for step in range(12):
            given = models.inputs("gpt2", batch=3)
            weights = own_weights(model.double(), given)
            expected.append([formula.head_entropy(a).numpy() for a in weights])
            model.float()
            rec._tap.take("train")  # drop what own_weights' pass measured
            loss = model(**given).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss))
            rec.step(loss=loss)
    run = es.open(run_file)
    assert list(run.steps()) == list(range(12))
    assert np.abs(run.entropy() - np.array(expected)).max() <= 1e-5
    assert np.array_equal(run.values("loss"), np.float32(losses))
    assert np.ptp(run.entropy(), axis=0).max() > 0.05  # the model has learnt


def test_a_run_describes_its_model(run_file):
    model = models.gpt2()
    with es.watch(model, run_file, config={"lr": 0.5}, name="first", steps=9) as rec:
        model(**models.inputs("gpt2"))
        rec.step()
    run = es.open(run_file)
    expected = dict(
        name="first",
        arch="GPT2LMHeadModel",
        family="gpt2",
        n_layer=3,
        n_head=4,
        d_model=48,
        ctx=24,
        vocab=61,
        batch=2,
        status="finished",
        last_step=0,
    )
    assert {name: run.info[name] for name in expected} == expected
    config = run.config
    assert len(config.pop("layers")) == run.info["n_layer"]
    assert config == {"lr": 0.5, "steps": 9}
