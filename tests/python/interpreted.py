"""Speeds up Triton's interpreter. At each call of a function in a kernel, even of
tl.sum, the interpreter patches all of triton.language, which takes 10 ms; this file
makes it patch triton.language only once for each module that contains kernels. The
interpreter also rebuilds a table at each look-up of a type, which is avoided here. It
repeats integer additions to detect overflows; these repetitions are removed, because
overflows cannot occur with the sizes in our tests."""

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
