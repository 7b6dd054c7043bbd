"""Tests that copies, pickles, saved files and exported programs of a watched model
contain nothing of this package. They compute the same as the model, also where the
package is not installed, and their attention is not recorded."""

import copy
import io
import pickle

import models
import numpy as np
import pytest
import torch
from test_batches import E, Attention, Multihead, stack, train

import entropyscan as es

MODELS = dict(
    calls=lambda: stack(Attention),
    multihead=lambda: stack(Multihead),
    interface=models.gpt2,
)


def through_torch_save(model):
    file = io.BytesIO()
    torch.save(model, file)
    assert b"entropyscan" not in file.getvalue()
    file.seek(0)
    return torch.load(file, weights_only=False)


def through_pickle(model):
    text = pickle.dumps(model)
    assert b"entropyscan" not in text
    return pickle.loads(text)


def forget(*_):
    """A hook of the user; copies of the model keep this hook."""


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle, through_torch_save])
def test_a_copy_has_nothing_of_ours(copied, kind, run_file):
    model = MODELS[kind]()
    handle = model.register_forward_hook(forget)
    plain = [sorted(module.__dict__) for module in model.modules()]
    with es.watch(model, run_file):
        made = copied(model)
        assert [sorted(module.__dict__) for module in made.modules()] == plain
        hooks = [
            hook
            for module in made.modules()
            for of_kind in (module._forward_hooks, module._forward_pre_hooks)
            for hook in of_kind.values()
        ]
        assert hooks == [forget]
        assert not any(m._forward_pre_hooks_with_kwargs for m in made.modules())
        assert model._forward_hooks.keys() >= {handle.id}
    assert [sorted(module.__dict__) for module in model.modules()] == plain


@pytest.mark.parametrize("layer", [Attention, Multihead])
def test_a_compiled_copy_is_not_in_the_run(layer, run_file):
    """An example of such a copy is a model with averaged weights that is evaluated
    during the training."""
    torch._dynamo.reset()
    model, x = stack(layer), torch.randn(2, 7, E)
    with es.watch(model, run_file) as rec:
        train(model, [x], rec)
        made = torch.compile(copy.deepcopy(model), backend="eager")
        made(5 * x).sum().backward()
        train(model, [x], rec)
    assert rec.trouble is None
    entropy = es.open(run_file).entropy()
    assert entropy.shape[0] == 2 and np.array_equal(entropy[0], entropy[1])


@models.needs_torch("2.7", "a program has what its modules have, used or not")
@pytest.mark.parametrize("layer", [Attention, Multihead])
@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_has_nothing_of_ours(strict, layer, run_file):
    torch._dynamo.reset()
    model, x = stack(layer), torch.randn(2, 7, E)
    with es.watch(model, run_file) as rec:
        made = torch.export.export(model, (x,), strict=strict)
        assert "entropyscan" not in str(made.graph)
        assert torch.equal(made.module()(x), model(x))
        rec.step()
    assert rec.trouble is None and es.open(run_file).entropy().shape == (1, 2, 3)
