#!/usr/bin/env python3
"""usage: tests/tools/python_reference.py >hooks/python/docs/reference.md

Prints the reference of the Python package: every public name, its signature
and docstring. test_package.py compares the page with this output.
"""

import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hooks/python"))

import entropyscan as es  # noqa: E402

# Watch is an alias of watch. RayTunePruning needs ray, which the tests do not
# require.
LEFT_OUT = {"Watch", "__version__", "RayTunePruning"}


def signature(name, thing):
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:
        return name
    parts = []
    for one in parameters:
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in parts:
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        parts.append(str(one.replace(annotation=one.empty)))
    return f"{name}({', '.join(parts)})"


def entry(level, title, thing):
    print(f"\n{'#' * level} `{title}`\n")
    print(f"```text\n{inspect.cleandoc(thing.__doc__ or '')}\n```")


def members(cls):
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name, value
        elif inspect.isfunction(value) and value.__doc__:
            yield signature(name, value), value


def main():
    print("# Reference\n")
    print("`tests/tools/python_reference.py` generates this page from the docstrings.")
    for name in sorted(set(es.__all__) - LEFT_OUT, key=str.lower):
        thing = getattr(es, name)
        if inspect.isclass(thing):
            entry(2, signature(f"es.{name}", thing), thing)
            if not issubclass(thing, Exception):
                for title, member in members(thing):
                    entry(3, title, member)
        else:
            entry(2, signature(f"es.{name}", thing), thing)


if __name__ == "__main__":
    main()
