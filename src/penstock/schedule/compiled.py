"""Compiles plain Python functions to machine code, which is kept on disk between runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types
from numba.core import config as _config

from penstock.model.cache_folder import cache_folder
from penstock.schedule.policy import Head, Priority

F = TypeVar("F", bound=Callable[..., Any])
_ROOMS: Final = ("schedule", "sim")
config: Any = _config  # its settings are made as it is imported
_named: Any = types.NamedUniTuple
_njit: Any = numba.njit  # its stubs leave out that references need not be counted


def _kept_in() -> str:
    """Name a folder for machine code; code of other sources gets another, as callers do not notice changed callees."""
    here, sources = Path(__file__).resolve().parents[1], hashlib.sha256()
    for room in _ROOMS:
        for file in sorted((here / room).rglob("*.py")):
            sources.update(file.read_bytes())
    return str(cache_folder() / f"numba-{sources.hexdigest()[:16]}")


if not os.environ.get("NUMBA_CACHE_DIR"):
    config.CACHE_DIR = _kept_in()


def compiled(function: F) -> F:
    """Compile a function at its first call; it lets other threads run meanwhile."""
    return cast(F, numba.njit(nogil=True, cache=True)(function))


def lean(function: F) -> F:
    """Compile a function that makes no arrays: then nothing counts who holds the arrays it reads, which costs most."""
    return cast(F, _njit(nogil=True, cache=True, _nrt=False)(function))


def inlined(function: F) -> F:
    """Compile a lean function into its callers: a call would copy the description of every array it is given."""
    return cast(F, _njit(nogil=True, cache=True, forceinline=True, _nrt=False)(function))


@cache
def pointer(priority: Priority) -> Priority:
    """Compile a priority so that one compiled simulator can call any; without the compiler it stays as it is."""
    if config.DISABLE_JIT:
        return priority
    signature = types.float64(_named(types.float64, len(Head._fields), Head))
    own = str(priority.__module__).startswith("penstock.")  # code of others may come from where no cache finds it again
    return cast(Priority, numba.cfunc(signature, cache=own)(priority))
