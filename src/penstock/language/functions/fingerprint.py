"""Computes a digest of what a Python callable does, the same in every process of one Python version.

Pickled bytes do not serve: they hold line numbers and paths of files, and differ with the order of sets and with which
equal strings happen to be one object.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_INSTALLED = tuple(
    {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))


def digest_of(*values: Any) -> str:
    """Return the digest of values, functions among them by their code and all that it refers to."""
    told = hashlib.sha256()
    for part in _told(list(values), set()):
        told.update(len(part).to_bytes(8, "big") + part)
    return told.hexdigest()


def is_own(module: str) -> bool:
    """Tell whether a module is the program's own, not of Python and not installed: its code is carried along."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module == "__main__" or module not in sys.modules
    return not any(Path(file).resolve().is_relative_to(place) for place in _INSTALLED)


def _told(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Tell a value in parts; a function that refers to itself is told once."""
    yield type(value).__qualname__.encode()
    if isinstance(value, _PLAIN):
        yield repr(value).encode()
    elif id(value) in seen:
        yield b"again"
    elif isinstance(value, FunctionType) and is_own(value.__module__):
        yield from _function(value, seen | {id(value)})
    elif isinstance(value, type) and is_own(value.__module__):
        yield from _class(value, seen | {id(value)})
    elif isinstance(value, MethodType):
        yield from _told([value.__func__, value.__self__], seen)
    elif isinstance(value, CodeType):
        yield from _code(value, seen)
    elif isinstance(value, ModuleType | type | FunctionType | BuiltinFunctionType):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode()
    elif isinstance(value, set | frozenset):
        yield from sorted(b"".join(_told(item, seen)) for item in value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _told(item, seen | {id(value)})
    elif isinstance(value, dict):
        yield from _told([part for pair in value.items() for part in pair], seen | {id(value)})
    else:
        yield from _object(value, seen | {id(value)})


def _function(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    """Tell a function: code, defaults, what it closes over, and the globals that its code names."""
    yield from _told([function.__code__, function.__defaults__, function.__kwdefaults__], seen)
    for cell in function.__closure__ or ():
        yield from _told(cell.cell_contents, seen)
    for name in sorted(set(_names(function.__code__)) & function.__globals__.keys()):
        yield name.encode()
        yield from _told(function.__globals__[name], seen)


def _class(one: type, seen: set[int]) -> Iterator[bytes]:
    """Tell a class of the program's own: its name, those it is made from, and its functions."""
    yield one.__qualname__.encode()
    yield from _told(list(one.__bases__), seen)
    for name, part in sorted(vars(one).items()):
        inner = getattr(part, "__func__", getattr(part, "fget", part))  # of class methods and properties
        if isinstance(inner, FunctionType | int | float | str):
            yield name.encode()
            yield from _told(inner, seen)


def _code(code: CodeType, seen: set[int]) -> Iterator[bytes]:
    """Tell code without the places it was written at."""
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    yield from _told([code.co_code, code.co_exceptiontable, *counts, *names, code.co_consts], seen)


def _names(code: CodeType) -> Iterator[str]:
    """List the names that code refers to, inner functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _object(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Tell any other object: pickled, or by its class and what it holds."""
    try:
        yield pickle.dumps(value, protocol=4)
    except Exception:  # whatever its own methods raise
        yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
        yield from _told(dict(getattr(value, "__dict__", {})), seen)
