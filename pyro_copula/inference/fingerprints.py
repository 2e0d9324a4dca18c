"""Fingerprints: numbers that tell values and functions apart, in this process and in any other.

A function counts by what it does, as far as that can be known: its code, its defaults, and the
values of the variables around it that it uses. An object counts by its class and its state. What
has a name of its own elsewhere (a class, a module, a function of another module that the code
calls) counts by that name. Where something lies in memory or in a file does not count.
"""

from __future__ import annotations

import dis
import functools
import hashlib
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, Transform

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice)


def digest(*values: Any) -> str:
    """A number that tells values apart: tensors, plain values, laws, functions, objects.

    Example:
        >>> digest([1.0, "a"]) == digest([1.0, "a"]), digest([1.0]) == digest([2.0])
        (True, False)
        >>> digest(lambda x: x + 1) == digest(lambda x: x + 1)
        True
        >>> digest(lambda x: x + 1) == digest(lambda x: x + 2)
        False
    """
    result, reader = hashlib.sha256(), _Reader()
    for value in values:
        for piece in reader.pieces(value):
            result.update(piece)
            result.update(b"\0")
    return result.hexdigest()


class _Reader:
    """Takes values apart. A function or object that is met again counts by its turn."""

    def __init__(self) -> None:
        self._met: dict[int, tuple[int, Any]] = {}  # with the objects, so that ids stay theirs
        self._around: set[int] = set()

    def pieces(self, value: Any) -> Iterator[bytes]:
        """What decides the fingerprint of a value."""
        if id(value) in self._around:
            yield b"circle"
            return
        self._around.add(id(value))
        yield from self._parts(value)
        self._around.discard(id(value))

    def _parts(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, Tensor):
            yield from _tensor(value)
        elif isinstance(value, np.ndarray):
            yield f"array {value.dtype} {value.shape}".encode()
            plain = not value.dtype.hasobject
            yield from [value.tobytes()] if plain else self.pieces(value.tolist())
        elif isinstance(value, Mapping):
            yield f"mapping {len(value)}".encode()
            for key in sorted(value, key=_key):
                yield _key(key).encode()
                yield from self.pieces(value[key])
        elif isinstance(value, list | tuple):
            yield f"sequence {len(value)}".encode()
            for item in value:
                yield from self.pieces(item)
        elif isinstance(value, set | frozenset):  # whose order is another in every process
            yield from self.pieces(["set", *sorted(map(digest, value))])
        elif isinstance(value, _PLAIN):
            yield repr(value).encode()
        elif isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, functools.partial):
            yield from self.pieces([value.func, value.args, value.keywords])
        elif isinstance(value, MethodType):
            yield from self.pieces([value.__func__, value.__self__])
        elif isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, Transform):  # without what it remembers of its last call
            yield _name(value)
            own = {name: part for name, part in vars(value).items() if not name.startswith("_")}
            yield from self.pieces(own) if own else ()
        elif isinstance(value, Distribution):
            yield from self.pieces([type(value), vars(value)])
        elif isinstance(value, type | type(print)):
            yield _name(value)
        elif id(value) in self._met:
            yield f"met {self._met[id(value)][0]}".encode()
        else:
            self._met[id(value)] = (len(self._met), value)
            yield from self._function(value) if _is_function(value) else self._object(value)

    def _code(self, code: CodeType) -> Iterator[bytes]:
        yield f"code {code.co_argcount} {code.co_kwonlyargcount} {code.co_flags}".encode()
        yield code.co_code
        yield code.co_exceptiontable
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        yield from self.pieces([names, code.co_consts])

    def _function(self, function: Any) -> Iterator[bytes]:
        """The code, the defaults, and the variables around it: of functions, and of its module."""
        if not isinstance(function, FunctionType):  # a cache or a compiler around it
            function = function.__wrapped__
        code = function.__code__
        yield from self.pieces([code, function.__defaults__, function.__kwdefaults__])
        for cell in function.__closure__ or ():
            try:
                part = cell.cell_contents
            except ValueError:  # not set yet
                part = "nothing"
            yield from self.pieces(part)
        outside = function.__globals__
        for name in sorted(_global_names(code) & outside.keys()):
            yield name.encode()
            part = outside[name]
            foreign = _is_function(part) and part.__module__ != function.__module__
            yield from [_name(part)] if foreign else self.pieces(part)

    def _object(self, value: Any) -> Iterator[bytes]:
        """The class, what a call does, and the state that pickle would write."""
        yield _name(type(value))
        call = getattr(type(value), "__call__", None)  # noqa: B004  (its code, not whether)
        if isinstance(call, FunctionType):
            yield from self.pieces(call)
        try:
            made = value.__reduce_ex__(2)
        except Exception:  # a lock or an open file: no more is known than its class
            return
        if isinstance(made, str):
            yield made.encode()
            return
        function, arguments, state, *items = (*made, None, None, None)[:5]
        yield _name(function)
        yield from self.pieces([arguments, state, *(list(part or ()) for part in items)])


def _tensor(value: Tensor) -> Iterator[bytes]:
    value = value.detach().cpu().resolve_conj().resolve_neg()
    yield f"tensor {value.dtype} {tuple(value.shape)}".encode()
    if value.layout != torch.strided:
        value = value.to_sparse_coo().coalesce()
        yield from _tensor(value.indices())
        value = value.values()
    yield value.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType) or isinstance(
        getattr(value, "__wrapped__", None), FunctionType
    )


def _global_names(code: CodeType) -> set[str]:
    """The names that code, and what is defined in it, looks up outside of functions."""
    found = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return found.union(*map(_global_names, inner))


def _key(key: Any) -> str:
    return str(key) if isinstance(key, _PLAIN) else digest(key)


def _name(value: Any) -> bytes:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', '')}.{name}".encode()
