"""Tests es.open: arrays and figures of intact and damaged run files."""

import subprocess
from pathlib import Path

import models
import numpy as np
import pytest

import entropyscan as es
from entropyscan import _library

RUN = Path(__file__).resolve().parents[2] / "samples/runs/sm.db"


def test_a_run_is_read_into_arrays():
    with es.open(RUN) as run:
        entropy, steps = run.entropy(), run.steps()
        assert entropy.dtype == np.float32
        assert entropy.shape == (len(steps), run.info["n_layer"], run.info["n_head"])
        assert (np.diff(steps) > 0).all() and steps[-1] <= run.info["last_step"]
        assert np.isfinite(entropy).all() and entropy.std() > 0.1
        assert run.values("loss").shape == run.steps("loss").shape
        shapes = {one["name"]: one["shape"] for one in run.series}
        layer = next(name for name, shape in shapes.items() if shape == "layer")
        assert run.values(layer).shape[1:] == (run.info["n_layer"],)
        assert run.info["arch"] == "SM" and "SM" in repr(run)
        assert run.config["arch"] == "SM"


def test_a_notebook_can_display_a_figure(tmp_path):
    run = es.open(RUN)
    figure = run.figure("heatmap", step="first", max="ceiling")
    assert figure._repr_svg_().lstrip().startswith("<?xml")
    assert figure._repr_png_() is None
    figure.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_bytes() == figure.data
    png = run.figure("curves", format="png")
    assert png._repr_png_().startswith(b"\x89PNG") and png._repr_svg_() is None


@pytest.mark.parametrize(
    "act, said",
    [
        (lambda run: run.values("colour"), "colour"),
        (lambda run: run.figure("portrait"), "portrait"),
        (lambda run: run.figure(step="soon"), "soon"),
        (lambda run: es.is_missing(np.zeros(3)), "float64"),
        (lambda run: es.open("/nowhere/run.db"), "/nowhere/run.db"),
        (lambda run: es.open(__file__), "test_reader.py"),
        (lambda run: es.open(RUN, run=5).info, "5"),
    ],
)
def test_an_error_is_one_line(act, said):
    with pytest.raises(es.Error) as error:
        act(es.open(RUN))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_damaged_sample_is_missing(tmp_path):
    """The values of a sample that does not match its checksum are missing."""
    path = tmp_path / "x.db"
    model = models.spread(models.gpt2())
    with es.watch(model, path) as rec:
        for _ in range(6):
            model(**models.inputs("gpt2"))
            rec.step()
    values = es.open(path).entropy()
    data = bytearray(path.read_bytes())
    at = data.find(values[3].tobytes())
    assert at > 0
    data[at + 1] ^= 0x40
    path.write_bytes(data)
    run = es.open(path)
    assert es.is_missing(run.entropy()[3]).all()
    assert np.array_equal(run.entropy()[4], values[4])
    assert "damaged" in [event["kind"] for event in run.events]


def test_open_chooses_the_run_that_started_last(tmp_path):
    other, path = RUN.with_name("sm-ln-g.db"), tmp_path / "two.db"
    program = _library.program("entropy-scan")
    subprocess.run([program, "merge", RUN, other, "-o", path], check=True)
    names = [es.open(path, run=i).info["name"] for i in range(2)]
    starts = [es.open(path, run=i).info["started_at"] for i in range(2)]
    assert names == ["SM", "SM+LN+G"] and starts[0] != starts[1]
    with pytest.warns(RuntimeWarning, match="has 2 runs: opening run 1, .*started last"):
        newest = es.open(path)
    assert newest.info["started_at"] == max(starts)
    assert [es.open(path, run=i).info["name"] for i in (-2, -1)] == names
    # Flags and figures of a run are the same as for a file that contains only this run.
    for i, alone in ((0, RUN), (1, other)):
        assert es.open(path, run=i).flags == es.open(alone).flags
        pictures = [one.figure("curves").data for one in (es.open(path, run=i), es.open(alone))]
        assert pictures[0] == pictures[1]
    with pytest.raises(es.Error, match="no run 2: the file has 2 runs"):
        es.open(path, run=2)
    with pytest.raises(es.Error, match="no run -3: the file has 2 runs"):
        es.open(path, run=-3)
