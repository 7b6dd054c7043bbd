"""Tests arguments of es.watch and the callbacks: a wrong argument raises an error before
training begins, and a configuration may contain any objects."""

import argparse
import enum
import math
import os
import pathlib
import warnings

import models
import numpy as np
import pytest
import torch

import entropyscan as es
from entropyscan._recording import as_json

WRONG = [
    (dict(every="often"), TypeError, "every='often': expected a whole number"),
    (dict(every=math.nan), ValueError, "every=nan: expected a whole number"),
    (dict(every=math.inf), ValueError, "every=inf: expected a whole number"),
    (dict(every=2.5), ValueError, "every=2.5: expected a whole number of at least 1"),
    (dict(every=0), ValueError, "every=0: expected a whole number of at least 1"),
    (dict(every=None), TypeError, "every=None: expected a whole number of at least 1"),
    (dict(path=None), TypeError, "path=None: expected the path of a run file"),
    (dict(path=3.5), TypeError, "path=3.5: expected the path of a run file"),
    (dict(path=""), ValueError, "path='': not a valid file name"),
    (dict(path="a\0b"), ValueError, "not a valid file name"),
    (dict(path="run\ud800.db"), ValueError, "not a valid file name"),
]
OF_WATCH = [
    (dict(first_step=None), TypeError, "first_step=None: expected a whole number"),
    (dict(first_step=-1), ValueError, "first_step=-1: expected a whole number"),
    (dict(name=5), TypeError, "name=5: expected a string"),
    (dict(store="db"), ValueError, "store='db': expected 'auto', 'sqlite'"),
    (dict(steps="many"), TypeError, "steps='many': expected a whole number"),
    (dict(first_layer=-1), ValueError, "first_layer=-1: expected a whole number"),
    (dict(first_head=1.5), ValueError, "first_head=1.5: expected a whole number"),
    (dict(all_ranks="yes"), TypeError, "all_ranks='yes': expected True or False"),
    (dict(tensor_parallel=3), TypeError, "tensor_parallel=3: expected a DeviceMesh"),
]


@pytest.mark.parametrize("given,kind,words", WRONG + OF_WATCH)
def test_a_wrong_argument_is_named_before_the_training(given, kind, words, run_file):
    model = models.gpt2()
    with pytest.raises(kind) as said:
        es.watch(model, **{"path": run_file, **given})
    assert words in str(said.value) and "\n" not in str(said.value)
    assert not os.path.exists(run_file)
    with es.watch(model, run_file) as rec:  # the failed watch left nothing behind
        model(**models.inputs("gpt2"))
        rec.step()
    assert rec.trouble is None


@pytest.mark.parametrize(
    "given,kind", [one[:2] for one in WRONG + OF_WATCH] + [(dict(evry=5), TypeError)]
)
def test_a_callback_raises_for_a_wrong_argument_when_it_is_made(given, kind, run_file):
    with pytest.raises(kind):
        es.TrainerCallback(**{"path": run_file, **given})
    with pytest.raises(kind):
        es.AccelerateTracker(**{"path": run_file, "model": models.gpt2(), **given})


def test_a_run_on_a_shared_file_system_is_a_fragment(run_file, tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text("22 1 0:1 / / rw - nfs4 filer:/ rw\n")
    monkeypatch.setenv("ENTROPY_MOUNTINFO", str(mounts))
    model = models.gpt2()
    with es.watch(model, run_file) as rec:
        for _ in range(2):
            model(**models.inputs("gpt2"))
            rec.step(loss=1.0)
    assert rec.trouble is None and not os.path.exists(run_file)
    assert list(es.open(run_file).steps()) == [0, 1]


def test_a_step_that_is_not_a_number_is_one_warning(run_file):
    model = models.gpt2()
    with pytest.warns(RuntimeWarning, match="step='third': expected a whole number"):
        with es.watch(model, run_file) as rec:
            rec.number("third")
            model(**models.inputs("gpt2"))
            rec.step()
    assert rec.lost == 1 and list(es.open(run_file).steps()) == [0]


def test_every_may_be_a_whole_number_of_any_type(run_file):
    model = models.gpt2()
    for every in (2.0, np.int64(2), torch.tensor(2)):
        with es.watch(model, run_file, every=every, first_step=np.int32(3)) as rec:
            for _ in range(3):
                model(**models.inputs("gpt2"))
                rec.step()
        assert list(es.open(run_file).steps()) == [4]
        os.remove(run_file)


def test_a_relative_path_refers_to_the_folder_at_the_start_of_the_watch(tmp_path, monkeypatch):
    first, later = tmp_path / "first", tmp_path / "later"
    first.mkdir()
    later.mkdir()
    monkeypatch.chdir(first)
    model = models.gpt2()
    with es.watch(model, "run.db") as rec:
        os.chdir(later)
        model(**models.inputs("gpt2"))
        rec.step()
    assert rec.trouble is None and rec.path == str(first / "run.db")
    assert os.listdir(later) == []
    assert es.open(first / "run.db").entropy().shape == (1, 3, 4)


@pytest.mark.parametrize("name", ["é.db", "\udcff.db"])
def test_a_file_name_may_contain_any_characters(name, tmp_path):
    model = models.gpt2()
    with es.watch(model, tmp_path / name) as rec:
        model(**models.inputs("gpt2"))
        rec.step()
    assert rec.trouble is None
    assert [n for n in os.listdir(tmp_path) if n.endswith(".db")] == [name]


class Colour(enum.Enum):
    RED = 1


class Broken:
    def to_dict(self):
        raise RuntimeError("not today")

    def __str__(self):
        raise RuntimeError("nor so")


class Properties:
    __slots__ = ()

    @property
    def shape(self):
        raise RuntimeError("no shape")


def hostile():
    around = {"lr": 1e-3}
    around["itself"] = around
    return dict(
        lr=1e-3,
        nan=math.nan,
        tensor=torch.tensor(0.25),
        numpy=np.float32(0.5),
        counts=np.int64(7),
        wide=torch.zeros(2, 3),
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
        kind=Colour.RED,
        path=pathlib.Path("a/b"),
        huge=10**400,
        surrogate="\ud800",
        bytes=b"\xff",
        a_class=Colour,
        broken=Broken(),
        properties=Properties(),
        space=argparse.Namespace(a=1, b=argparse.Namespace(c=None)),
        function=hostile,
        around=around,
        model=torch.nn.Linear(2, 2),
        **{"\udcff": 1},
    )


def test_a_configuration_may_hold_anything(run_file):
    model = models.gpt2()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with es.watch(model, run_file, config=hostile()) as rec:
            model(**models.inputs("gpt2"))
            rec.step()
    assert rec.trouble is None
    kept = es.open(run_file).config
    wanted = dict(
        lr=1e-3,
        nan="nan",
        tensor=0.25,
        numpy=0.5,
        counts=7,
        dtype="torch.bfloat16",
        device="cpu",
        kind="Colour.RED",
        path="a/b",
        huge=str(10**400),
        broken="Broken: RuntimeError",
        properties="Properties: RuntimeError",
        space=dict(a=1, b=dict(c=None)),
    )
    assert {name: kept[name] for name in wanted} == wanted
    assert kept.keys() >= hostile().keys() - {"\udcff"} and "?" in kept
    assert kept["around"]["itself"]["lr"] == 1e-3
    assert es.open(run_file).info["name"] == os.path.basename(run_file)[:-3]


def test_an_object_without_attributes_is_stored_as_its_text():
    assert as_json(object()).startswith("<object object")
    assert as_json({1: (2, {3})}) == {"1": [2, [3]]}
