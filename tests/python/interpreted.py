"""Triton's interpreter at a bearable speed: it prepares all of triton.language
anew for each call of a function in a kernel, tl.sum included, 10 ms a time; once
for each module of such functions is enough. It builds a table for every type that
is looked up, and adds the same integers twice to see whether they overflow, which
numbers of our tests' sizes do not."""

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
