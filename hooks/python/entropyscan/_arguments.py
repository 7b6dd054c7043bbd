"""What users give to es.watch and to the callbacks, looked at before a training
begins: a wrong argument is an error that names it, once, where it was given."""

from __future__ import annotations

import operator
import os
from typing import Any

_LEAST = {
    "every": 1,
    "first_step": 0,
    "first_head": 0,
    "first_layer": 0,
    "steps": 0,
    "maps": 0,
    "maps_every": 1,
}
STORES = ("auto", "sqlite", "fragment")  # es_store
RECORDS = ("core", "standard", "all")  # es_series_set
_MAP_CELLS = 64  # ES_MAP_MAX


def checked(**given: Any) -> dict[str, Any]:
    """Arguments of es.watch, by name, as it keeps them. Raises TypeError and
    ValueError."""
    given["path"] = run_path(given["path"])
    for name, least in _LEAST.items():
        if given[name] is not None or name not in ("first_layer", "steps"):
            given[name] = whole(name, given[name], least)
    name, group = given["name"], given["tensor_parallel"]
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name={name!r}: give a text")
    if given["also"] is not None and not callable(given["also"]):
        raise TypeError(f"also={given['also']!r}: give a callable (values, step=)")
    for switch in ("all_ranks", "map_heads", "quiet"):
        if given[switch] not in (True, False):
            raise TypeError(f"{switch}={given[switch]!r}: give True or False")
    if given["maps"] > _MAP_CELLS:
        raise ValueError(f"maps={given['maps']!r}: {_MAP_CELLS} cells a side at most")
    if given["maps"] and (given["all_ranks"] or group is not None):
        words = "attention maps of several ranks are not joined"
        raise ValueError(f"maps={given['maps']!r}: {words}: leave out one of them")
    if given["store"] not in STORES:
        words = "give 'auto', 'sqlite' or 'fragment'"
        raise ValueError(f"store={given['store']!r}: {words}")
    if given["resume"] not in ("auto", True, False):
        raise ValueError(f"resume={given['resume']!r}: give 'auto', True or False")
    if given["record"] not in RECORDS:
        words = "give 'core', 'standard' or 'all'"
        raise ValueError(f"record={given['record']!r}: {words}")
    if given["regularize"] is not None:
        from ._ereg import EntropyRegularization

        if not isinstance(given["regularize"], EntropyRegularization):
            words = "give an es.EntropyRegularization"
            raise TypeError(f"regularize={given['regularize']!r}: {words}")
    if group is not None and not _is_group(group):
        words = "give a DeviceMesh or a process group"
        raise TypeError(f"tensor_parallel={group!r}: {words}")
    return given


def _is_group(value: Any) -> bool:
    """Also what torch says where a rank is in none."""
    from torch import distributed

    if not distributed.is_available():
        return False
    is_none = value is distributed.GroupMember.NON_GROUP_MEMBER
    is_mesh = hasattr(value, "get_group")
    return is_none or is_mesh or isinstance(value, distributed.ProcessGroup)


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int of at least `least`; 50.0 is 50. Raises TypeError and
    ValueError, which name the argument."""
    try:
        number = int(value) if isinstance(value, float) else operator.index(value)
        if number == value and number >= least:
            return number
    except (TypeError, ValueError, OverflowError) as error:  # of text, NaN, infinity
        if not isinstance(value, float):
            raise TypeError(_not_whole(name, value, least)) from error
    raise ValueError(_not_whole(name, value, least))


def _not_whole(name: str, value: Any, least: int) -> str:
    return f"{name}={value!r}: give a whole number of at least {least}"


def run_path(path: Any) -> str:
    """The run file's path from the root, wherever the program changes to later.
    Raises TypeError and ValueError."""
    try:
        text = os.fsdecode(path)
    except TypeError as error:
        raise TypeError(f"path={path!r}: give the path of a run file") from error
    try:
        is_one = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_one = False
    if not is_one:
        raise ValueError(f"path={path!r}: no file can be called that")
    try:
        return os.path.join(os.getcwd(), text)
    except FileNotFoundError:  # the folder is gone: nobody can change out of it
        return text
