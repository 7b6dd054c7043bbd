"""Small models with random weights, L != H, and run files in a scratch folder."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Decided when triton is loaded; PyTorch compiles for the CPU without it.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Files run side by side: processes of inductor's own would be more than processors.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
if "ENTROPYSCAN_INSTALLED" not in os.environ:
    sys.path.insert(0, str(root / "hooks/python"))
    os.environ.setdefault("ENTROPYSCAN_HOME", str(root / os.environ.get("BUILD", "build")))

import pytest  # noqa: E402
import torch  # noqa: E402


# Files run side by side: those that take longest are not left to the end.
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
    """The closing line that our other tests have."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    n = {name: len(found) for name, found in reporter.stats.items()}
    failed = n.get("failed", 0) + n.get("error", 0)
    print(f"\n{n.get('passed', 0)} passed, {failed} failed, {n.get('skipped', 0)} skipped")
