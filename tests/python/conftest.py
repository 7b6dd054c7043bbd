"""Configures pytest: sets the paths of the package and defines the fixtures that all
tests share."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Triton reads this variable when it is imported; PyTorch compiles for the CPU without
# Triton.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Test files run in parallel, so more than one compiler process per file would overload
# the processors.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
if "ENTROPYSCAN_INSTALLED" not in os.environ:
    sys.path.insert(0, str(root / "hooks/python"))
    os.environ.setdefault("ENTROPYSCAN_HOME", str(root / os.environ.get("BUILD", "build")))

import pytest  # noqa: E402
import torch  # noqa: E402


# Test files run in parallel: start the longest ones first.
LONGEST = ["test_wheel", "test_triton", "test_inductor", "test_distributed", "test_compile"]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: [*LONGEST, item.path.stem].index(item.path.stem))


@pytest.fixture(autouse=True)
def the_same_numbers():
    torch.manual_seed(20261)


@pytest.fixture
def run_file(tmp_path):
    return str(tmp_path / "run.db")


def pytest_unconfigure(config):
    """Prints a last line with the counts in the format of our other test programs."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    n = {name: len(found) for name, found in reporter.stats.items()}
    failed = n.get("failed", 0) + n.get("error", 0)
    print(f"\n{n.get('passed', 0)} passed, {failed} failed, {n.get('skipped', 0)} skipped")
