"""Tests recording and reading without the C library: the recorder in Python writes the
same files as the C recorder, and both readers and entropy-scan can read the files of
both recorders."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import models
import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from waiting import until_true

import entropyscan as es
from entropyscan import _c_library, _library, _python_reader, _python_recorder, _run_file
from entropyscan._recording import Recording

ROOT = Path(__file__).resolve().parents[2]
RECORDERS = {"C": _c_library.Recorder, "Python": _python_recorder.Recorder}
READERS = {"C": _c_library.Reader, "Python": _python_reader.Reader}
UUID = "01234567-89ab-cdef-0123-456789abcdef"
RUN = {"uuid": UUID, "name": "a run", "n_layer": 2, "n_head": 3, "config": '{"steps": 9}'}
each_recorder = pytest.mark.parametrize("recorder", RECORDERS)
each_reader = pytest.mark.parametrize("reader", READERS)


def recorded(recorder, path, steps, status="finished", **options):
    """Records a run with the loss step + 0.5 at each step."""
    made = RECORDERS[recorder](path, RUN, **options)
    loss = made.series("loss", "run", "train", None)
    for step in steps:
        assert made.push(loss, step, np.array([step + 0.5])) == 0, made.message()
    code, report = made.close(status)
    assert (code, report["lost"], report["dropped"]) == (0, 0, 0), made.message()


def scan(*arguments):
    program = _library.program("entropy-scan")
    return subprocess.run([program, *arguments], capture_output=True, text=True)


# --- the same training --------------------------------------------------------


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(20, 60)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 9, 3, 4, 5).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


def train(path, **options):
    """Trains a small model, with a watch if a path is given. Returns the losses."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(*[Attention() for _ in range(3)])
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    watch = path and es.watch(model, path, config={"lr": 0.5}, **options)
    losses = []
    for step in range(6):
        loss = model(torch.randn(2, 9, 20) * (1 + 40 * step)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        if watch:
            watch.step(loss=loss)
    if watch:
        with torch.no_grad():
            model.eval()(torch.randn(2, 9, 20))
        watch.evaluation(loss=1.25)
        watch.close()
        assert watch.trouble is None and watch.lost == 0, watch.trouble
    return losses


@pytest.fixture
def pure(monkeypatch):
    """Makes the package behave as if the C library were not installed."""
    monkeypatch.setattr(_library, "IS_PYTHON", True)
    monkeypatch.setattr(_library, "Recorder", _python_recorder.Recorder)
    monkeypatch.setattr(_library, "Reader", _python_reader.Reader)


def contents(path):
    """Returns everything that the C reader reads from a file, except values that differ
    from run to run."""
    run = _c_library.Reader(str(path))
    info = run.run(0)
    for own in ("uuid", "started_at", "ended_at"):
        assert info.pop(own)
    series = run.series(0)
    samples = {(s["name"], s["phase"]): run.samples(0, s["name"], s["phase"]) for s in series}
    return info, run.config(0), series, samples


def attention_maps(path):
    """Returns the attention maps in a file by (phase, step, layer, head, size, ctx)."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT * FROM attention_map").fetchall()
    return {row[1:7]: np.frombuffer(row[8], np.float32) for row in rows}


def test_a_watch_continues_its_run(run_file, pure, monkeypatch):
    monkeypatch.setenv("ENTROPYSCAN_PURE", "1")  # for the process that reads the runs
    model = models.gpt2()
    for steps in ((0, 1, 2, 3), (2, 3, 4)):
        with es.watch(model, run_file, first_step=steps[0]) as rec:
            for step in steps:
                model(**models.inputs("gpt2"))
                rec.step(loss=float(step))
        assert rec.trouble is None
    reader = _c_library.Reader(run_file)
    assert reader.n_runs() == 1
    assert list(reader.samples(0, "entropy", "train")[0]) == [0, 1, 2, 3, 4]


def test_both_recorders_write_the_same_training(tmp_path, pure, monkeypatch):
    paths = [tmp_path / name / "run.db" for name in ("python", "c")]
    for path in paths:
        path.parent.mkdir()
    losses = train(str(paths[0]), maps=4, maps_every=2)
    monkeypatch.undo()
    assert losses == train(str(paths[1]), maps=4, maps_every=2) == train(None)
    assert "nan" in losses and "nan" != losses[1]
    (info, config, series, samples), (*others, wanted) = map(contents, paths)
    assert [info, config, series] == others
    assert {one["name"] for one in series} > {"entropy", "loss", "max_logit", "sink"}
    for key, (steps, values, shape) in samples.items():
        assert np.array_equal(steps, wanted[key][0]) and shape == wanted[key][2]
        largest = np.abs(values).max(initial=1, where=np.isfinite(values))
        tolerance = 1e-4 * (largest if key[0] == "max_logit" else 1)
        assert np.allclose(values, wanted[key][1], rtol=0, atol=tolerance, equal_nan=True), key
        assert np.array_equal(es.is_missing(values), es.is_missing(wanted[key][1]))
    maps = [attention_maps(path) for path in paths]
    assert len(maps[0]) == 12 and maps[0].keys() == maps[1].keys()
    for place, values in maps[0].items():
        assert np.allclose(values, maps[1][place], rtol=0, atol=1e-6, equal_nan=True)
    for path in paths:
        for options in (["--json"], ["--figure=maps", "-o", path.with_suffix(".svg")]):
            done = scan(path, *options)
            assert done.returncode == 0, done.stderr
        assert not list(path.parent.glob("run.db?*")), "other files were left behind"


# --- samples ------------------------------------------------------------------


def test_both_recorders_write_the_same_rows(tmp_path):
    """Compares rows including their rowids and checksums."""
    tables = []
    for recorder, make in RECORDERS.items():
        path = str(tmp_path / f"{recorder}.db")
        made = make(path, RUN)
        random = np.random.default_rng(1)
        shapes = {"entropy": ("head", 6), "alpha": ("layer", 2), "loss": ("run", 1)}
        numbers = {s: made.series(s, shape, "train", None) for s, (shape, _) in shapes.items()}
        for step in (0, 3, 10**12):
            for name, (_, n) in shapes.items():
                assert made.push(numbers[name], step, random.normal(size=n)) == 0
            for head in (None, 2):
                assert made.map("eval", step, 1, head, random.normal(size=(5, 5)), 7) == 0
        assert made.event(3, "note", "warning", "caf\u00e9 \udcff") == 0
        assert made.close("finished")[0] == 0
        with sqlite3.connect(path) as database:
            queries = [f"SELECT rowid, * FROM {t}" for t in ("series", "sample", "attention_map")]
            queries.append("SELECT step, kind, severity, layer, head, message, data FROM event")
            tables.append([database.execute(query).fetchall() for query in queries])
    assert tables[0] == tables[1] and [len(t) for t in tables[0]] == [3, 9, 6, 1]


@each_reader
@each_recorder
def test_values_keep_their_bits(recorder, reader, run_file):
    bits = [0x7FC007A2, 0x7FC00000, 0xFFC12345, 0, 0x80000000, 0x7F800000]
    values = np.array([bits, bits[::-1]], np.uint32).view(np.float32)
    made = RECORDERS[recorder](run_file, RUN)
    number = made.series("entropy", "head", "eval", None)
    for step in (7, 2**40, 2**62):
        assert made.push(number, step, values[step % 2]) == 0
    assert made.push(number, 8, values[0]) == 0
    assert made.push(number, 8, values[1]) == 0  # replaces the previous sample
    made.close("stopped")
    run = READERS[reader](run_file)
    steps, found, shape = run.samples(0, "entropy", "eval")
    assert steps.tolist() == [7, 8, 2**40, 2**62] and shape == "head"
    assert found.view(np.uint32).tolist() == values[[1, 1, 0, 0]].view(np.uint32).tolist()
    (series,) = run.series(0)
    assert (series["unit"], series["first_step"], series["last_step"]) == ("nats", 7, 2**62)
    assert run.run(0)["status"] == "stopped" and run.config(0) == {"steps": 9}


def test_both_readers_read_the_same():
    path = str(ROOT / "samples/runs/sm.db")
    ours, theirs = (READERS[reader](path) for reader in ("Python", "C"))
    for what in ("run", "config", "series", "events"):
        assert getattr(ours, what)(0) == getattr(theirs, what)(0)
    for one in ours.series(0):
        found, wanted = (r.samples(0, one["name"], one["phase"]) for r in (ours, theirs))
        assert np.array_equal(found[0], wanted[0])
        assert found[1].tobytes() == wanted[1].tobytes()


def test_checksums_follow_the_definition():
    assert _run_file.series_checksum("123456789", "", "") == 0xE3069283
    random = np.random.default_rng(3)
    for n in (1, 2, 3, 17, 64, 257):
        values = random.integers(0, 2**32, (3, n), np.uint32)
        steps = np.array([0, 5, 2**62])
        found = _run_file.checksums(np.array([1, 2, 2**32 - 1]), steps, values)
        for i, before in enumerate((1, 2, 2**32 - 1)):
            register = before ^ 0xFFFFFFFF
            for byte in steps[i].tobytes() + values[i].tobytes():
                register ^= byte
                for _ in range(8):
                    register = register >> 1 ^ 0x82F63B78 * (register & 1)
            assert int(found[i]) % 2**32 == register ^ 0xFFFFFFFF


def test_tables_and_units_match_those_of_the_program():
    said = scan("help", "run-file").stdout
    for sql in (*_run_file.TABLES.values(), _run_file.MAP_TABLE):
        assert sql in said
    lines = re.findall(r"^  (\w+): .*?(?:, (\S+))? \((?:run|layer|head)\)$", said, re.M)
    assert len(lines) > 60
    for name, unit in lines:  # what follows a title's comma need not be a unit
        unit = unit if unit in _run_file.UNITS.values() else ""
        assert _run_file.UNITS.get(name, "") == unit, name


@each_reader
def test_a_sample_with_a_wrong_checksum_is_missing(reader, run_file):
    recorded("Python", run_file, range(4))
    data = bytearray(Path(run_file).read_bytes())
    at = data.find(np.float32(2.5).tobytes())
    data[at + 2] ^= 0x10
    Path(run_file).write_bytes(data)
    run = READERS[reader](run_file)
    _, values, _ = run.samples(0, "loss", "train")
    assert values.view(np.uint32)[2] == _run_file.MISSING_BITS
    assert values[[0, 1, 3], 0].tolist() == [0.5, 1.5, 3.5]
    (event,) = (event for event in run.events(0) if event["kind"] == "damaged")
    assert event["step"] == 2 and "loss" in event["message"]


@each_reader
@each_recorder
def test_an_edited_row_is_reported(recorder, reader, run_file):
    recorded(recorder, run_file, range(4))
    run = READERS[reader](run_file)
    assert not [event for event in run.events(0) if event["kind"] == "damaged"]
    with sqlite3.connect(run_file) as file:
        file.execute("UPDATE run SET name = 'renamed'")
        file.execute("UPDATE series SET unit = 'bits' WHERE name = 'loss'")
    file.close()
    run = READERS[reader](run_file)
    assert run.run(0)["name"] == "renamed"
    said = [event["message"] for event in run.events(0) if event["kind"] == "damaged"]
    assert len(said) == 2 and said[0] == "run 1 differs from the recorded row: edited or damaged"
    assert said[1].startswith("series ")


# --- resumed runs, and files that cannot be written ---------------------------


@pytest.mark.parametrize("first", RECORDERS)
@pytest.mark.parametrize("second", RECORDERS)
def test_each_recorder_resumes_runs_of_the_other(first, second, run_file):
    recorded(first, run_file, range(6), "failed")
    recorded(second, run_file, range(3, 5), resume_step=3)
    run = _c_library.Reader(run_file)
    steps, values, _ = run.samples(0, "loss", "train")
    assert run.n_runs() == 1 and steps.tolist() == [0, 1, 2, 3, 4]
    assert values[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert run.run(0)["status"] == "finished" and run.run(0)["last_step"] == 4


def test_resuming_with_another_number_of_heads_is_refused(run_file):
    recorded("Python", run_file, range(2))
    with pytest.raises(es.Error, match="2 layers of 3 heads, not 2 of 4"):
        _python_recorder.Recorder(run_file, {**RUN, "n_head": 4})
    assert contents(run_file)[0]["status"] == "finished"


@pytest.mark.parametrize("first, second", [("C", "Python"), ("Python", "C")])
def test_a_file_has_one_writer(first, second, run_file):
    made = RECORDERS[first](run_file, RUN)
    with pytest.raises(es.Error, match=r"run\.db: process \d+ is writing it: wait"):
        RECORDERS[second](run_file, {**RUN, "uuid": None})
    assert made.close("finished")[0] == 0


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda p: p.mkdir(), "not a regular file"),
        (lambda p: p.write_text("something else " * 99), "not a database"),
        (lambda p: Path(f"{p}-journal").touch(), "rollback journal"),
        (lambda p: Path(f"{p}-wal").write_text("x"), "run file that is gone"),
        (lambda p: os.symlink("elsewhere", p), "not a regular file"),
    ],
)
def test_a_path_that_is_not_a_run_file_is_left_alone(make, said, tmp_path):
    path = tmp_path / "run.db"
    make(path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(es.Error, match=said) as error:
        _python_recorder.Recorder(str(path), RUN)
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


def test_the_environment_adds_to_the_configuration(run_file, monkeypatch):
    monkeypatch.setenv("ENTROPY_RUN_CONFIG", '{"steps": 3, "sweep": "s1"}')
    recorded("Python", run_file, range(2))
    assert _c_library.Reader(run_file).config(0) == {"steps": 9, "sweep": "s1"}


def test_fragments_are_refused(run_file):
    with pytest.raises(es.Error, match="cannot record fragments without the C library"):
        _python_recorder.Recorder(run_file, RUN, store=2)
    with pytest.raises(es.Error, match="are read by the C library"):
        _python_reader.Reader("run.esf")


# --- deaths -------------------------------------------------------------------

TRAINER = """
import os, sys, time
import numpy as np
from entropyscan._python_recorder import Recorder
made = Recorder(sys.argv[1], {run!r})
loss = made.series("loss", "run", "train", None)
if os.fork() == 0:  # the child inherits the pipe and must close it
    assert made.push(loss, 0, np.zeros(1)) == -9, made.message()
    assert made.close("finished")[0] == -9
    print("forked", flush=True)
    time.sleep(600)
    os._exit(0)
for step in range(10**6):
    assert made.push(loss, step, np.array([step + 0.5])) == 0
    if made._committed > 20:
        print("recorded", flush=True)
    time.sleep(0.001)
"""


def test_a_killed_training_leaves_a_failed_run(run_file):
    env = {**os.environ, "PYTHONPATH": str(Path(es.__file__).parents[1])}
    command = [sys.executable, "-c", TRAINER.format(run=RUN), run_file]
    pipes = {"stdout": subprocess.PIPE, "text": True}
    trainer = subprocess.Popen(command, env=env, start_new_session=True, **pipes)
    try:
        said = {trainer.stdout.readline() for _ in range(2)}
        assert said == {"forked\n", "recorded\n"}
        trainer.kill()
        trainer.wait()
        # The forked child is still running and must not keep the recorder alive.
        until_true(lambda: not os.path.exists(f"{run_file}-lock"), "it did not happen in time")
    finally:
        os.killpg(trainer.pid, signal.SIGKILL)
        trainer.stdout.close()
    run = _c_library.Reader(run_file)
    steps, values, _ = run.samples(0, "loss", "train")
    assert len(steps) > 20 and np.array_equal(steps, np.arange(len(steps)))
    assert np.array_equal(values[:, 0], steps + 0.5)
    assert run.run(0)["status"] == "failed"
    assert [event["kind"] for event in run.events(0)] == ["trainer_died"]


def test_a_killed_recorder_is_a_counted_gap(run_file, pure):
    rec = Recording(run_file, {"name": "a run", "config": {"a": 1}})
    rec.know(n_layer=2, n_head=3)
    assert rec.open()
    rec.push("loss", 0, 1.0)
    rec._recorder._process.kill()
    until_true(lambda: rec._recorder._is_gone, "it did not happen in time")
    with pytest.warns(RuntimeWarning, match="has ended.*the training continues"):
        rec.push("loss", 1, 2.0)
    rec.push("loss", 2, 3.0)
    rec.close()
    run = es.open(run_file)
    assert run.steps("loss").tolist()[-2:] == [1, 2]
    assert len(run.steps("loss")) + rec.lost == 3
    assert [event["kind"] for event in run.events] == ["gap"]


def test_a_full_queue_drops_and_counts(run_file):
    made = RECORDERS["Python"](run_file, {**RUN, "n_layer": 512, "n_head": 512})
    number = made.series("entropy", "head", "train", None)
    values = np.zeros(512 * 512, np.float32)
    os.kill(made._process.pid, signal.SIGSTOP)
    codes = [made.push(number, step, values) for step in range(40)]
    os.kill(made._process.pid, signal.SIGCONT)
    n_dropped = codes.count(_run_file.EFULL)
    assert n_dropped > 20 and codes.count(0) + n_dropped == 40
    code, report = made.close("finished")
    assert (code, report["dropped"], report["committed"]) == (0, n_dropped, 40 - n_dropped)
    (event,) = _c_library.Reader(run_file).events(0)
    assert event["kind"] == "dropped" and event["message"].startswith(f"{n_dropped} frames")


def test_the_recorder_waits_for_the_lock_of_another_program(run_file, capfd):
    made = RECORDERS["Python"](run_file, RUN)
    number = made.series("loss", "run", "train", None)
    other = sqlite3.connect(run_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert made.push(number, 0, np.ones(1)) == 0
    until_true(lambda: "database is locked: retrying" in capfd.readouterr().err, "no retry")
    other.execute("ROLLBACK")
    other.close()
    assert made.push(number, 1, np.ones(1)) == 0
    counts = {"pushed": 2, "committed": 2, "dropped": 0, "lost": 0}
    assert made.close("finished") == (0, counts), made.message()


def test_a_request_to_stop_is_reported(run_file):
    Path(f"{run_file}.stop").write_text("from before")
    made = RECORDERS["Python"](run_file, RUN)
    assert not os.path.exists(f"{run_file}.stop")
    number = made.series("loss", "run", "train", None)
    made.push(number, 0, np.zeros(1))
    assert not made.stop_requested()
    Path(f"{run_file}.stop").write_text("enough\nof it")
    until_true(made.stop_requested, "it did not happen in time")
    assert not os.path.exists(f"{run_file}.stop")
    made.close("stopped")
    (event,) = _c_library.Reader(run_file).events(0)
    assert (event["kind"], event["message"]) == ("stop", "enough")


# --- the package --------------------------------------------------------------


def package(place):
    """Copies the package without built files, in the layout of the source tree."""
    ignored = shutil.ignore_patterns("__pycache__", "_native", "build")
    return shutil.copytree(ROOT / "hooks/python", place / "hooks/python", ignore=ignored)


def without_ours(**settings):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ENTROPY", "PYTHONPATH"))}
    return {**clean, **settings}


def python(*arguments, **settings):
    done = subprocess.run(
        [sys.executable, *arguments], env=without_ours(**settings), capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


CHOICE = """
import sys
sys.platform, place = sys.argv[1:]
sys.path.insert(0, place)
import entropyscan
module = entropyscan._library.Recorder.__module__
print(module, *(name in sys.modules for name in ("cffi", "sqlite3", "torch")))
"""


@pytest.mark.parametrize(
    "platform, is_tree, pure, chosen",
    [
        ("linux", True, "0", "_c_library True False False"),
        ("linux", True, "1", "_python_recorder False False False"),
        ("linux", False, "", "_python_recorder False False False"),
        ("darwin", True, "0", "_python_recorder False False False"),
    ],
)
def test_the_recorder_is_chosen_at_import(tmp_path, platform, is_tree, pure, chosen):
    """Without the C libraries the package records in Python, except in a source tree on
    Linux, where it expects the C recorder."""
    place = package(tmp_path)
    if is_tree:
        (tmp_path / "Makefile").touch()
    said = python("-c", CHOICE, platform, str(place), ENTROPYSCAN_PURE=pure)
    assert said == (0, f"entropyscan.{chosen}\n")


BUILD = """
import os, sys
sys.platform, folder, place = sys.argv[1:]
os.chdir(folder)
sys.path.insert(0, folder)
import build_backend
print(build_backend.build_wheel(place))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Builds a wheel from a copy of the package that has no Makefile."""
    place = tmp_path_factory.mktemp("pure")
    folder = package(place)
    made = [
        python("-c", BUILD, "linux", folder, place / "linux", ENTROPYSCAN_PURE="1"),
        python("-c", BUILD, "darwin", folder, place / "darwin"),
    ]
    name = f"entropy_scan-{es.__version__}-py3-none-any.whl"
    assert made == [(0, f"{name}\n")] * 2
    return place / "linux" / name


def test_building_a_wheel_without_libraries_on_linux_must_be_requested(tmp_path):
    code, said = python("-c", BUILD, "linux", package(tmp_path), tmp_path)
    assert code == 1 and "no Makefile; build from the source tree" in said


USE = """
import sys
sys.path.append({torch!r})
import torch
import entropyscan as es
from torch.nn.functional import scaled_dot_product_attention

class Attention(torch.nn.Module):
    def forward(self, x):
        return scaled_dot_product_attention(x, x, x, is_causal=True)

model = torch.nn.Sequential(Attention(), Attention())
with es.watch(model, "run.db") as rec:
    for _ in range(3):
        model(torch.randn(2, 3, 8, 4))
        rec.step(loss=0.5)
assert rec.trouble is None, rec.trouble
run = es.open("run.db")
print(es._library.home(), *run.entropy().shape, *run.values("loss"))
for wanted in (lambda: run.flags, lambda: run.figure()):
    try:
        wanted()
    except es.Error as error:
        print(error)
"""


def test_a_wheel_without_libraries_records_and_reads(wheel, tmp_path):
    """Installs the wheel into a new venv, which contains neither libraries nor programs of this
    project. PyTorch and NumPy come from the venv of the tests."""
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        assert not [name for name in files.namelist() if "_native" in name]
        files.extractall(site)
    script = USE.format(torch=str(Path(torch.__file__).parents[1]))
    done = subprocess.run(
        [tmp_path / "venv/bin/python", "-c", script],
        env=without_ours(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    recorded, *refused = done.stdout.splitlines()
    assert recorded == "None 3 2 3 0.5 0.5 0.5"
    words = "run.db: flags and figures: this installation does not include the programs: copy"
    assert len(refused) == 2 and all(line.startswith(words) for line in refused)
    shown = scan(tmp_path / "run.db")
    assert shown.returncode == 0 and "Sequential" in shown.stdout
