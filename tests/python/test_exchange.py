"""Tests that exported runs can be read by the libraries that define the export formats."""

import json
import subprocess
import sys

import numpy as np
import pytest

import entropyscan as es
from entropyscan import _library

TEXT = """# name: r
# series: head nats entropy
# series: layer - slope
# series: run nats train:loss
# series: run nats eval:loss
step,layer,head,entropy,slope,loss,eval:loss
10,,,,,3.5,2.25
10,0,,,0.25,,
10,1,,,NA,,
10,0,0,0,,,
10,0,1,NaN,,,
10,0,2,NA,,,
10,1,0,inf,,,
10,1,1,-1.5,,,
10,1,2,1e-45,,,
25,,,,,NaN,
25,0,0,0.1,,,
25,1,2,2.375,,,
"""


def scan(*words):
    program = _library.program("entropy-scan")
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def recorded(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    scan("import", "-q", tmp_path / "a.csv", "-o", tmp_path / "a.db")
    return tmp_path / "a.db"


def test_npz_has_every_bit(recorded, tmp_path):
    scan("export", recorded, "-o", tmp_path / "a.npz")
    run = es.open(recorded)
    with np.load(tmp_path / "a.npz") as arrays:
        for one in run.series:
            name = ("eval/" if one["phase"] == "eval" else "") + one["name"]
            values = run.values(one["name"], one["phase"])
            assert arrays[name].dtype == np.float32
            assert arrays[name].shape == values.shape
            assert arrays[name].tobytes() == values.tobytes()
            steps = run.steps(one["name"], one["phase"])
            assert np.array_equal(arrays["steps/" + name], steps)
        assert arrays["entropy"].shape == (2, 2, 3)
        assert es.is_missing(arrays["entropy"]).sum() == 5
        assert json.loads(arrays["run.json"])["name"] == "r"
        assert len(arrays.files) == 9


def test_tensorboard_reads_what_export_writes(recorded, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    scan("export", recorded, "-o", tmp_path / "events.out.tfevents.1.r")
    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    events.Reload()

    def scalars(tag):
        return [(one.step, one.value) for one in events.Scalars(tag)]

    assert scalars("entropy/layer_00/head_00") == [(10, 0.0), (25, float(np.float32(0.1)))]
    assert scalars("entropy/layer_01/head_00") == [(10, np.inf)]
    assert scalars("entropy/layer_01/head_02")[0] == (10, float(np.float32(1e-45)))
    assert scalars("eval/loss") == [(10, 2.25)]
    assert scalars("slope/layer_00") == [(10, 0.25)]
    assert scalars("loss")[0] == (10, 3.5) and np.isnan(scalars("loss")[1][1])
    assert np.isnan(scalars("entropy/layer_00/head_01")[0][1])
    assert np.isnan(scalars("entropy/layer_00/mean")[0][1])
    assert scalars("entropy/layer_01/mean")[1] == (25, 2.375)
    tags = events.Tags()["scalars"]
    assert "entropy/layer_00/head_02" not in tags and "slope/layer_01" not in tags
    assert "# name: r" in str(events.Tensors("entropy-scan/run")[0].tensor_proto)


def test_import_reads_what_tensorboard_writes(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "logs")) as writer:
        for step in (0, 50):
            writer.add_scalar("loss", 3.5 - step / 100, step)
            for layer in range(2):
                for head in range(3):
                    value = np.nan if head == 1 else layer + head / 7 + step
                    writer.add_scalar(f"attn.{layer}.head.{head}.entropy", value, step)
        writer.add_histogram("weights", np.arange(5.0), 50)
    (events,) = (tmp_path / "logs").iterdir()
    scan("import", "-q", events, "-o", tmp_path / "b.db")
    run = es.open(tmp_path / "b.db")
    assert run.entropy().shape == (2, 2, 3)
    assert np.isnan(run.entropy()[:, :, 1]).all()
    assert not es.is_missing(run.entropy()).any()
    assert run.entropy()[1, 1, 2] == np.float32(1 + 2 / 7 + 50)
    assert run.steps().tolist() == [0, 50] and run.values("loss").tolist() == [3.5, 3.0]


def test_parquet_keeps_nan_and_has_null_for_missing(recorded, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    es.open(recorded).to_parquet(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["run", "step", "layer", "head", "series", "phase", "value"]
    rows = {
        (row["series"], row["phase"], row["step"], row["layer"], row["head"]): row["value"]
        for row in table.to_pylist()
    }
    assert len(rows) == table.num_rows == 12 + 2 + 2 + 1
    assert rows["entropy", "train", 10, 0, 0] == 0.0
    assert np.isnan(rows["entropy", "train", 10, 0, 1])
    assert rows["entropy", "train", 10, 0, 2] is None
    assert rows["entropy", "train", 25, 1, 2] == 2.375
    assert rows["slope", "train", 10, 0, None] == 0.25
    assert rows["slope", "train", 10, 1, None] is None
    assert rows["loss", "eval", 10, None, None] == 2.25
    es.open(recorded).to_parquet(tmp_path / "b.parquet", series=["loss"])
    assert pq.read_table(tmp_path / "b.parquet").num_rows == 3
    with pytest.raises(es.Error, match="colour"):
        es.open(recorded).to_parquet(tmp_path / "c.parquet", series=["colour"])
    with pytest.raises(es.Error, match="nowhere"):
        es.open(recorded).to_parquet(tmp_path / "nowhere/c.parquet")
    assert sorted(path.name for path in tmp_path.glob("*parquet*")) == ["a.parquet", "b.parquet"]


def test_parquet_without_pyarrow_is_one_line(recorded, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(es.Error, match="pip install pyarrow"):
        es.open(recorded).to_parquet(tmp_path / "a.parquet")
