"""Tests that real trackers, used offline, store the values that es.watch(also=) passes
to them."""

import glob

import models
import pytest
import torch
from waiting import until_true

import entropyscan as es

STEPS = 4
NAMES = ("attn/entropy_mean", "attn/L2/entropy_mean", "attn/L0/max_logit")


def train(path, also, after_step=lambda step: None):
    """Trains with a tracker. Returns {step: values of NAMES} from the run file."""
    torch.manual_seed(3)
    model = models.gpt2()
    with es.watch(model, path, also=also) as rec:
        for step in range(STEPS):
            model(**models.inputs("gpt2"))
            rec.step(loss=1.0)
            after_step(step)
    assert rec.trouble is None
    run = es.open(path)
    entropy, logits = run.entropy(), run.values("max_logit")
    values = (entropy.mean((1, 2)), entropy[:, 2].mean(1), logits[:, 0].max(1))
    return {name: list(enumerate(map(float, v))) for name, v in zip(NAMES, values)}


def same(found, expected):
    for name in NAMES:
        assert [step for step, _ in found[name]] == list(range(STEPS))
        assert [v for _, v in found[name]] == pytest.approx([v for _, v in expected[name]], 1e-5)


def records(path):
    """Yields the records of a W&B file, which consists of blocks of 32 KiB with pieces
    of records, as in LevelDB's log format."""
    data, at, record = open(path, "rb").read(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        piece = data[at + 7 : at + 7 + size]
        if len(piece) < size:
            return  # still being written
        record += piece
        at += 7 + size
        if kind in (1, 4):  # a complete record, or its last piece
            yield record
            record = b""


def test_wandb_keeps_all_steps_whenever_its_user_logs(run_file, tmp_path, monkeypatch):
    """W&B counts each call of log as a step and drops values whose step is earlier."""
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_SILENT", "true")
    for limit in ("WANDB_INIT_TIMEOUT", "WANDB__SERVICE_WAIT"):  # for busy machines
        monkeypatch.setenv(limit, "600")
    tracked = wandb.init(project="p", dir=str(tmp_path), mode="offline")
    log = lambda step: [wandb.log({"loss": 1.0}), wandb.log({"lr": 0.1})]  # noqa: E731
    expected = train(run_file, wandb.log, log)
    tracked.finish()
    (path,) = glob.glob(f"{tmp_path}/wandb/offline-run-*/*.wandb")

    def parsed():  # complete with an exit record: finish() does not wait for the file
        found = list(map(Record.FromString, records(path)))
        is_whole = any(one.WhichOneof("record_type") == "exit" for one in found)
        return found if is_whole else None

    found = {name: [] for name in NAMES}
    for record in until_true(parsed, "the file of W&B has no exit record"):
        items = record.history.item
        row = {(i.key or "/".join(i.nested_key)): float(i.value_json) for i in items}
        for name in NAMES:
            if name in row:
                found[name].append((row["attn/step"], row[name]))
    same(found, expected)


def test_trackio_keeps_all_steps(run_file, tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    trackio.init(project="p", name="r", embed=False)
    expected = train(run_file, trackio.log)
    trackio.finish()
    rows = SQLiteStorage.get_logs("p", "r")
    same({name: [(row["step"], row[name]) for row in rows] for name in NAMES}, expected)


def test_mlflow_keeps_all_steps(run_file, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path}/mlruns")
    with mlflow.start_run() as tracked:
        expected = train(run_file, mlflow.log_metrics)
    history = mlflow.MlflowClient().get_metric_history
    metrics = {name: history(tracked.info.run_id, name) for name in NAMES}
    same({name: [(m.step, m.value) for m in metrics[name]] for name in NAMES}, expected)


def test_tensorboard_keeps_all_steps(run_file, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:

        def also(values, step):
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        expected = train(run_file, also)
    events = EventAccumulator(str(tmp_path)).Reload()
    same({name: [(e.step, e.value) for e in events.Scalars(name)] for name in NAMES}, expected)


def test_swanlab_keeps_all_steps(run_file, tmp_path):
    swanlab = pytest.importorskip("swanlab")
    from swanlab.proto.swanlab.record.v1.record_pb2 import Record
    from swanlab.sdk.internal.core_python.store import DataStoreReader

    swanlab.init(project="p", mode="offline", logdir=str(tmp_path))
    expected = train(run_file, swanlab.log)
    swanlab.finish()
    reader = DataStoreReader()
    reader.open(glob.glob(f"{tmp_path}/run-*/*.swanlab")[0])
    found = {name: [] for name in NAMES}
    for data in reader:
        record = Record.FromString(data)
        if record.HasField("scalar") and record.scalar.key in found:
            scalar = record.scalar
            found[scalar.key].append((scalar.step, scalar.value.number))
    same(found, expected)


def test_a_tracker_that_raises_is_one_warning(run_file):
    def also(values, step):
        raise OSError("no network")

    with pytest.warns(RuntimeWarning, match="no network") as seen:
        torch.manual_seed(3)
        model = models.gpt2()
        with es.watch(model, run_file, also=also) as rec:
            for _ in range(3):
                model(**models.inputs("gpt2"))
                rec.step(loss=1.0)
    assert len(seen) == 1 and rec.lost == 0
    assert list(es.open(run_file).steps()) == [0, 1, 2]
