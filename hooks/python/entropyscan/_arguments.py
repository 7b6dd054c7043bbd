"""Checks the arguments of es.watch and of the callbacks before training begins. The
error for a wrong argument names the argument, and is raised by the call that passed
it."""

from __future__ import annotations

import operator
import os
from typing import Any

# The smallest allowed value of each integer argument.
_LEAST = {
    "every": 1,
    "first_step": 0,
    "first_head": 0,
    "first_layer": 0,
    "steps": 0,
    "maps": 0,
    "maps_every": 1,
}
STORES = ("auto", "sqlite", "fragment")  # in the order of es_store
RECORDS = ("core", "standard", "all")  # in the order of es_series_set
_MAP_CELLS = 64  # ES_MAP_MAX


def checked(**given: Any) -> dict[str, Any]:
    """Returns the arguments of es.watch, by name, converted to the types in which a
    Watch stores them. Raises TypeError or ValueError for a wrong argument."""
    given["path"] = run_path(given["path"])
    for name, least in _LEAST.items():
        if given[name] is not None or name not in ("first_layer", "steps"):
            given[name] = whole(name, given[name], least)
    name, group = given["name"], given["tensor_parallel"]
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name={name!r}: expected a string")
    if given["also"] is not None and not callable(given["also"]):
        raise TypeError(f"also={given['also']!r}: expected a callable (values, step=)")
    for switch in ("all_ranks", "map_heads", "quiet"):
        if given[switch] not in (True, False):
            raise TypeError(f"{switch}={given[switch]!r}: expected True or False")
    if given["maps"] > _MAP_CELLS:
        raise ValueError(f"maps={given['maps']!r}: expected at most {_MAP_CELLS} cells a side")
    if given["maps"] and (given["all_ranks"] or group is not None):
        words = "attention maps cannot be combined with all_ranks or tensor_parallel"
        raise ValueError(f"maps={given['maps']!r}: {words}: pass only one of them")
    if given["store"] not in STORES:
        words = "expected 'auto', 'sqlite' or 'fragment'"
        raise ValueError(f"store={given['store']!r}: {words}")
    if given["resume"] not in ("auto", True, False):
        raise ValueError(f"resume={given['resume']!r}: expected 'auto', True or False")
    if given["record"] not in RECORDS:
        words = "expected 'core', 'standard' or 'all'"
        raise ValueError(f"record={given['record']!r}: {words}")
    if given["regularize"] is not None:
        from ._ereg import EntropyRegularization

        if not isinstance(given["regularize"], EntropyRegularization):
            words = "expected an es.EntropyRegularization"
            raise TypeError(f"regularize={given['regularize']!r}: {words}")
    if group is not None and not _is_group(group):
        words = "expected a DeviceMesh or a process group"
        raise TypeError(f"tensor_parallel={group!r}: {words}")
    return given


def _is_group(value: Any) -> bool:
    """Returns true for a DeviceMesh, a process group, and NON_GROUP_MEMBER, which
    torch returns on ranks outside a group."""
    from torch import distributed

    if not distributed.is_available():
        return False
    is_none = value is distributed.GroupMember.NON_GROUP_MEMBER
    is_mesh = hasattr(value, "get_group")
    return is_none or is_mesh or isinstance(value, distributed.ProcessGroup)


def whole(name: str, value: Any, least: int) -> int:
    """Converts `value` to an int of at least `least`; 50.0 becomes 50. Raises
    TypeError or ValueError, which name the argument."""
    try:
        number = int(value) if isinstance(value, float) else operator.index(value)
        if number == value and number >= least:
            return number
    except (TypeError, ValueError, OverflowError) as error:  # text, NaN, infinity
        if not isinstance(value, float):
            raise TypeError(_not_whole(name, value, least)) from error
    raise ValueError(_not_whole(name, value, least))


def _not_whole(name: str, value: Any, least: int) -> str:
    return f"{name}={value!r}: expected a whole number of at least {least}"


def run_path(path: Any) -> str:
    """Returns the absolute path of the run file, so that the program may change its
    working directory later. Raises TypeError or ValueError for an invalid path."""
    try:
        text = os.fsdecode(path)
    except TypeError as error:
        raise TypeError(f"path={path!r}: expected the path of a run file") from error
    try:
        is_one = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_one = False
    if not is_one:
        raise ValueError(f"path={path!r}: not a valid file name")
    try:
        return os.path.join(os.getcwd(), text)
    except FileNotFoundError:  # the working directory was deleted
        return text
