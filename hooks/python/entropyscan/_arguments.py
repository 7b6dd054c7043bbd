"""What users give to es.watch and to the callbacks, looked at before a training
begins: a wrong argument is an error that names it, once, where it was given."""

from __future__ import annotations

import operator
import os
from typing import Any


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
