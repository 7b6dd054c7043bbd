"""Triton's interpreter at a bearable speed: it prepares all of triton.language
anew for each call of a function in a kernel, tl.sum included, 10 ms a time.
Once for each module of such functions is enough."""

from triton.runtime import interpreter

_prepared = set()


def _call(self, *args, **options):
    module = self.fn.__module__
    if module not in _prepared:
        _prepared.add(module)
        interpreter._patch_lang(self.fn)
    return self.rewrite()(*args, **options)


def hurry():
    interpreter.InterpretedFunction.__call__ = _call
