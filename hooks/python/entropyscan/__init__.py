"""Attention entropy of every head, recorded while a model trains.

    import entropyscan as es
    with es.watch(model, "run.db", every=50, config=args) as rec:
        for batch in data:
            loss = step(batch)
            rec.step(loss=loss)
    es.open("run.db").entropy()        # numpy (steps, L, H)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._library import Error
from ._version import __version__

if TYPE_CHECKING:
    from ._accelerate import AccelerateTracker
    from ._ereg import EntropyRegularization, attention_entropy
    from ._lightning import LightningCallback
    from ._optuna import OptunaPruning
    from ._ray import RayTunePruning
    from ._reader import Figure, Run, is_missing, open
    from ._serve import Server, serve, show
    from ._tokens import tokens
    from ._trainer import TrainerCallback
    from ._watch import Watch, watch

# Maps each public name to its module. A module is imported when a name is first used,
# because most of them need PyTorch or another large library.
_PLACES = {
    "watch": "_watch",
    "Watch": "_watch",
    "open": "_reader",
    "Run": "_reader",
    "Figure": "_reader",
    "is_missing": "_reader",
    "serve": "_serve",
    "show": "_serve",
    "Server": "_serve",
    "EntropyRegularization": "_ereg",
    "attention_entropy": "_ereg",
    "exact_share": "_device",
    "tokens": "_tokens",
    "TrainerCallback": "_trainer",
    "LightningCallback": "_lightning",
    "AccelerateTracker": "_accelerate",
    "OptunaPruning": "_optuna",
    "RayTunePruning": "_ray",
}
# Maps each of our modules to the library that it imports and the pip package of that
# library.
_PACKAGES = {
    "_trainer": ("transformers", "transformers"),
    "_lightning": ("pytorch_lightning", "lightning"),
    "_accelerate": ("accelerate", "accelerate"),
    "_optuna": ("optuna", "optuna"),
    "_ray": ("ray", "'ray[tune]'"),
}
__all__ = ["Error", "__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = _PLACES[name]
    try:
        module = importlib.import_module(f".{place}", __name__)
    except ModuleNotFoundError as error:
        wanted, package = _PACKAGES.get(place, ("torch", "torch"))
        if error.name not in (wanted, "torch"):
            raise
        package = package if error.name == wanted else "torch"
        raise ModuleNotFoundError(
            f"entropyscan.{name} needs {error.name}: pip install {package}",
            name=error.name,
        ) from None
    value = getattr(module, name)
    globals()[name] = value
    return value
