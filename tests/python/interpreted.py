"""Speeds up Triton's interpreter. The interpreter patches all of triton.language at
each call of a function in a kernel, even for tl.sum, which takes 10 ms; here this is
done only once for each module. The interpreter also rebuilds a table at each look-up of
a type, and repeats integer additions to detect overflows, which cannot occur with the
sizes in our tests; both are avoided here."""

import dataclasses

from triton.runtime import interpreter

_prepared = set()
_looked_up = {}
_look_up = interpreter._get_np_dtype


def _type(given):
    name = given.scalar.name
    if name not in _looked_up:
        _looked_up[name] = _look_up(given)
    return _looked_up[name]


def _call(self, *args, **options):
    module = self.fn.__module__
    if module not in _prepared:
        _prepared.add(module)
        interpreter._patch_lang(self.fn)
    return self.rewrite()(*args, **options)


def hurry():
    if interpreter.InterpretedFunction.__call__ is _call:
        return
    interpreter.InterpretedFunction.__call__ = _call
    interpreter._get_np_dtype = _type
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
