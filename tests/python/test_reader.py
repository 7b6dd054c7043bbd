"""es.open: arrays and pictures of run files, recorded and damaged."""

from pathlib import Path

import models
import numpy as np
import pytest

import entropyscan as es

RUN = Path(__file__).resolve().parents[2] / "samples/runs/sm.db"


def test_a_run_is_arrays():
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


def test_a_picture_is_what_a_notebook_shows(tmp_path):
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
def test_what_is_not_there_is_one_line(act, said):
    with pytest.raises(es.Error) as error:
        act(es.open(RUN))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_bytes_that_changed_are_missing_not_numbers(tmp_path):
    """A sample that its checksum denies is no number."""
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
