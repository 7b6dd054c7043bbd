"""usage: torch_watch.py prepare FOLDER
       torch_watch.py measure FOLDER

Measures how much es.watch slows down the training of models of the package transformers, and
checks that it changes no loss. tests/gpu/check.sh runs this program. There are two models: GPT-2
small with B 32, T 1024 and bf16 autocast, and four layers as wide as those of Llama 3.2 3B (24
query heads and 8 key heads of width 128) in bf16 with B 1, T 4096. Each model is trained in eager
mode, with torch.compile, and with torch.compile and mode="reduce-overhead". Queries and keys are
scaled so that entropies are 1 to 3 nats, as in a trained model.

This gives six jobs. Each job is a process with two equal models, one of which is watched.
Compiling uses the CPUs for a minute but hardly the device, so `prepare` starts the jobs while
other stages run. The jobs compile and then wait for `measure`. `measure` starts the jobs that
`prepare` did not start, lets the jobs measure one after another, and prints a table. Jobs and
`measure` communicate through files in FOLDER.

The watch records every second step. A round consists of two steps of the plain model, and
of a recorded and an unrecorded step of the watched model, in alternating order, with a
wait after each step. If a plain step takes p, a recorded step r and an unrecorded step u,
the cost of every=1 is r / p - 1, and the cost of every=50 is (r + 49 * u) / (50 * p) - 1.
The table contains the medians over the rounds and their 95 % intervals. Before the
rounds, the losses of both models are compared bit for bit, and steps of both models run
under set_sync_debug_mode("error"). After the rounds, the samples in the run file are
compared with the recorded steps.

Variables, with default values in parentheses:

  ENTROPYSCAN_HOME       folder of the libraries and programs
  ENTROPY_RECORDER       script that starts the recorder with its libraries
  ENTROPY_BENCH_DEVICE   cpu, to test this file with tiny models (cuda)
  ENTROPY_BENCH_WATCH    jobs to run, for example "gpt2:eager llama:compile" (all six)
  ENTROPY_BENCH_ROUNDS   maximum number of rounds (21)
  ENTROPY_BENCH_WATCH_SECONDS  time for the rounds of a job in seconds (5)
  ENTROPY_BENCH_SECONDS  time in seconds after which `measure` ends (220)
  ES_LIBRARY_PATH        LD_LIBRARY_PATH of this project's programs

Exit code 0 if every job has ended and all requirements that do not depend on speed are met.
"""

import csv
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # repeatable bits

from torch_common import (
    DEVICE,
    N_ROUNDS,
    middle,
    our_environment,
    require,
    seconds_left,
    setting,
    torch,
    verdict,
    wait,
)

MODES = ("reduce-overhead", "compile", "eager")
# Eager mode comes last: eager GPT-2 needs more than half of the device's memory, which
# is free only after the other jobs have ended, since their CUDA graphs keep their
# memory.
JOBS = setting(
    "WATCH", " ".join(f"{model}:{mode}" for mode in MODES for model in ("gpt2", "llama"))
).split()
# Share of the device's memory that a job may use while other jobs compile.
SHARE = {"gpt2": 0.28, "llama": 0.15}
EVERY = 2
SCORES = 2.6  # the standard deviation of scores that gives 1 to 3 nats
IS_GPU = DEVICE == "cuda"

# --- the models ----------------------------------------------------------------


def build(name):
    """Returns a model. Each call gives the same weights."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    if name == "gpt2":
        layers, heads, width, vocab = (12, 12, 768, 50257) if IS_GPU else (1, 2, 32, 101)
        config = GPT2Config(
            vocab_size=vocab,
            n_positions=sizes(name)[1],
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            activation_function="gelu_pytorch_tanh",
            bos_token_id=0,
            eos_token_id=0,
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        )
        kind, number = GPT2LMHeadModel, torch.float32
    else:
        heads, width, vocab = (24, 3072, 32000) if IS_GPU else (4, 64, 101)
        config = LlamaConfig(
            vocab_size=vocab,
            hidden_size=width,
            intermediate_size=8 * width // 3,
            num_hidden_layers=4 if IS_GPU else 1,
            num_attention_heads=heads,
            num_key_value_heads=heads // 3 if IS_GPU else 2,
            max_position_embeddings=sizes(name)[1],
        )
        kind, number = LlamaForCausalLM, torch.bfloat16
    config.use_cache = False
    config._attn_implementation = "sdpa"
    with torch.device(DEVICE):
        model = kind(config).to(number)
    sharpen(model, width)
    return model.train()


def sizes(name):
    """Returns the batch size B and the context length T with which a model is trained."""
    if not IS_GPU:
        return 2, 16
    return (32, 1024) if name == "gpt2" else (1, 4096)


@torch.no_grad()
def sharpen(model, width):
    """Scales the projections of queries and keys so that the standard deviation of scores is
    SCORES. The projections' inputs are normalised, so this only depends on the weights."""
    for name, weight in model.named_parameters():
        if name.endswith("c_attn.weight"):  # (width, 3 width): q, k, v
            parts = [weight[:, :width], weight[:, width : 2 * width]]
        elif name.endswith(("q_proj.weight", "k_proj.weight")):
            parts = [weight]
        else:
            continue
        for part in parts:
            part *= SCORES**0.5 / (part.float().std() * width**0.5)


def options(mode):
    """Returns the options of torch.compile."""
    if not IS_GPU:
        return {"backend": "eager"}
    return {"mode": "default" if mode == "compile" else mode}


class Side:
    """A model in training. If a path is given, the model is watched and recorded in this file."""

    def __init__(self, name, mode, path=None):
        self.name, self.mode, self.n_steps = name, mode, 0
        self.model = build(name)
        self.rec = None
        if path is not None:
            import entropyscan as es

            self.rec = es.watch(self.model, path, every=EVERY)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=IS_GPU)
        self.forward = self.model
        if mode != "eager":
            self.forward = torch.compile(self.model, **options(mode))

    def step(self, ids):
        if self.mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=self.name == "gpt2"):
            loss = self.forward(input_ids=ids, labels=ids).loss
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        loss = loss.detach().clone()  # a graph's output is overwritten by the next step
        if self.rec is not None:
            self.rec.step(loss=loss)
        self.n_steps += 1
        return loss


# --- a job -----------------------------------------------------------------------


def exported(path, series):
    """Exports a series of a run file. Returns its rows as (step, layer, head, value)."""
    program = Path(os.environ.get("ENTROPYSCAN_HOME", "build")) / "entropy-scan"
    command = [program, "export", path, "--series", series, "--format", "csv"]
    text = subprocess.run(
        command, capture_output=True, text=True, check=True, env=our_environment()
    ).stdout
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.reader(lines[1:]))


class Job:
    def __init__(self, name, folder):
        model, self.mode = name.split(":")
        self.label, self.path = f"{model}, {self.mode}", folder / f"{name}.db"
        torch.set_float32_matmul_precision("high")
        self.plain = Side(model, self.mode)
        self.watched = Side(model, self.mode, self.path)
        vocab = self.plain.model.config.vocab_size
        self.ids = torch.randint(vocab, sizes(model), device=DEVICE)

    def pair(self):
        """Trains each of the two models for one step. Returns True if both losses have
        the same bits."""
        mine, other = (side.step(self.ids) for side in (self.plain, self.watched))
        return bool(torch.equal(mine, other)) and bool(torch.isfinite(mine))

    def compile(self):
        """Trains until recorded and unrecorded steps have been compiled and captured as
        graphs. The learning rate is 0 until the losses have been compared, because the order of
        sums in a compiled backward pass varies and the weights would differ."""
        if self.mode == "eager":
            return
        self.rate(0.0)
        for _ in range(3 * EVERY):
            self.pair()

    def rate(self, rate):
        for side in (self.plain, self.watched):
            for group in side.optimiser.param_groups:
                group["lr"] = rate

    def compare_losses(self):
        torch.use_deterministic_algorithms(self.mode == "eager", warn_only=True)
        are_equal = all([self.pair() for _ in range(2 * EVERY)])
        torch.use_deterministic_algorithms(False)
        what = f"{self.label}: {2 * EVERY} losses are bit-equal with and without the watch"
        require(what, are_equal)
        return are_equal

    def find_waits(self):
        """Trains for a few steps in the mode of PyTorch that raises an error if the host
        waits for the device. Returns True if no step waits."""
        what, why = f"{self.label}: recorded steps do not wait for the device", None
        if not IS_GPU:
            print(f"required: {what}: {verdict(False)}")
            return True
        torch.cuda.set_sync_debug_mode("error")
        side = "the plain model"
        try:
            self.plain.step(self.ids)
            side = "the watched model"
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                for _ in range(1 + EVERY):
                    self.watched.step(self.ids)
            why = self.watched.rec.trouble
        except Exception as error:
            why = str(error).splitlines()[0]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        if why is not None:
            print(f"{self.label}: {side}: {why}")
        require(what, why is None)
        return why is None

    def timed(self, side):
        """Trains the watched model for one step. Returns True if the step is recorded,
        and its time in milliseconds."""
        is_recorded = side.rec is not None and side.n_steps % EVERY == 0
        wait()
        start = time.perf_counter()
        side.step(self.ids)
        wait()
        return is_recorded, 1e3 * (time.perf_counter() - start)

    def round(self, sides):
        """Measures one round. Returns the milliseconds of the plain model's steps (their
        mean), of a recorded step, and of an unrecorded step."""
        took = [(side, *self.timed(side)) for side in sides]
        plain = [ms for side, _, ms in took if side is self.plain]
        watched = {is_recorded: ms for side, is_recorded, ms in took if side.rec}
        return sum(plain) / len(plain), watched[True], watched[False]

    def rounds(self):
        end, found = time.monotonic() + float(setting("WATCH_SECONDS", "5")), []
        sides = [self.plain, self.watched, self.watched, self.plain]
        while len(found) < min(7, N_ROUNDS) or (
            len(found) < N_ROUNDS and time.monotonic() < end
        ):
            found.append(self.round(sides))
            sides = sides[2:] + sides[:2]
        return found

    def print_costs(self, rounds, entropies):
        cells = [self.label, f"{middle([p for p, _, _ in rounds])[0]:.2f}", str(len(rounds))]
        lines = []
        for every, limit in ((1, 10.0), (50, 0.5)):
            costs = [100 * ((r + (every - 1) * u) / every / p - 1) for p, r, u in rounds]
            cost, low, high = middle(costs)
            said = f"{cost:+.2f} % [{low:+.2f}, {high:+.2f}]"
            cells.append(said)
            lines.append(
                f"required: {self.label}: every={every} costs <= {limit} % of a step:"
                f" {said}: {verdict(cost <= limit)}"
            )
        cells += [f"{x:.2f}" for x in entropies]
        print(*lines, "| " + " | ".join(cells) + " |", sep="\n")

    def compare_samples(self):
        """Checks that the run file contains the recorded steps, and no others."""
        wanted = list(range(0, self.watched.n_steps, EVERY))
        holds = self.watched.rec.trouble is None
        for series in ("entropy", "loss"):
            found = sorted({int(row[0]) for row in exported(self.path, series)})
            if found != wanted:
                print(f"{self.label}: {series} of steps {found}, not {wanted}")
            holds = holds and found == wanted
        require(f"{self.label}: the file has the samples of all recorded steps", holds)
        return holds

    def print_skipped_graphs(self):
        if self.mode == "reduce-overhead" and IS_GPU:
            n = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
            print(f"{self.label}: graphs that PyTorch skipped: {n}")

    def measure(self):
        holds = [self.compare_losses(), self.find_waits()]
        self.rate(1e-4)
        rounds = self.rounds()
        self.watched.rec.close()
        holds.append(self.compare_samples())
        self.print_skipped_graphs()
        heads = [float(row[3]) for row in exported(self.path, "entropy") if row[2]]
        self.print_costs(rounds, (min(heads), sum(heads) / len(heads), max(heads)))
        return all(holds)


def run_job(name, folder, share):
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "4"
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if IS_GPU:
        torch.cuda.set_per_process_memory_fraction(share)
    job = Job(name, folder)
    job.compile()
    if IS_GPU:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0)
    (folder / f"{name}.ready").touch()
    while not (folder / f"{name}.go").exists():
        time.sleep(0.02)
    return 0 if job.measure() else 1


# --- all jobs --------------------------------------------------------------------


class Jobs:
    """The jobs that this process has started. Each job is forked from this process before this
    process uses the device, so that PyTorch and transformers are imported only once."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}

    def start(self, name, share):
        import transformers.models.gpt2.modeling_gpt2
        import transformers.models.llama.modeling_llama

        process = multiprocessing.get_context("fork").Process(
            target=self._run, args=(name, share)
        )
        process.start()
        self.processes[name] = process

    def _run(self, name, share):
        end_with_parent()
        log = os.open(self.file(name, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.exit(run_job(name, self.folder, share))

    def file(self, name, kind):
        return self.folder / f"{name}.{kind}"

    def note_ends(self):
        """Writes the exit code of each finished job to a file."""
        for name, process in list(self.processes.items()):
            if process.exitcode is not None:
                part = self.file(name, "part")
                part.write_text(str(process.exitcode))
                part.rename(self.file(name, "code"))
                del self.processes[name]

    def await_any(self, name, *kinds):
        """Waits until the job has written a file of one of these kinds. Returns False
        if the time limit is reached first."""
        while not any(self.file(name, kind).exists() for kind in kinds):
            if seconds_left() <= 0:
                return False
            self.note_ends()
            time.sleep(0.02)
        return True


def prepare(folder):
    jobs = Jobs(folder)
    for name in JOBS:
        jobs.file(name, "begun").touch()
    for name in JOBS:
        jobs.start(name, share_of(name))
    while jobs.processes:
        jobs.note_ends()
        time.sleep(0.1)
    return 0


def share_of(name):
    return SHARE[name.split(":")[0]]


def collect(jobs, name):
    """Tells a job that has compiled to start its measurement, and waits for its end. Returns
    the lines that the job printed, and True if the job succeeded. A job that ended during
    compilation, perhaps for lack of memory, is started again."""
    code = jobs.file(name, "code")
    jobs.await_any(name, "ready", "code")
    if code.exists():
        print(f"{name} starts again:", *lines_of(jobs, name)[-1:], file=sys.stderr)
        code.unlink()
        jobs.start(name, 1.0)
        jobs.await_any(name, "ready", "code")
    jobs.file(name, "go").touch()
    if not jobs.await_any(name, "code"):
        return [*lines_of(jobs, name), f"{name}: no time was left"], False
    return lines_of(jobs, name), code.read_text() == "0"


def lines_of(jobs, name):
    return jobs.file(name, "log").read_text().strip().splitlines()


HEADS = "model | plain, ms | rounds | every=1 | every=50 | least entropy | mean | largest"


def measure(folder):
    jobs = Jobs(folder)
    for name in JOBS:
        if not jobs.file(name, "begun").exists():
            jobs.start(name, share_of(name))
    print(f"PyTorch {torch.__version__}; costs of the watch in % of a step, with their 95 %")
    print("intervals; the heads' entropies in nats.\n")
    print(f"| {HEADS} |\n|" + " --- |" * 8, flush=True)
    notes, holds = [], True
    try:
        for name in JOBS:
            lines, is_good = collect(jobs, name)
            holds = holds and is_good
            for line in lines:
                if line.startswith("|"):
                    print(line, flush=True)
            notes += [line for line in lines if not line.startswith("|")]
    finally:
        print("\n" + "\n".join(notes), flush=True)
        for process in jobs.processes.values():
            process.kill()
    return 0 if holds else 1


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main():
    verb, folder = sys.argv[1:]
    end_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return {"prepare": prepare, "measure": measure}[verb](Path(folder))


if __name__ == "__main__":
    sys.exit(main())
