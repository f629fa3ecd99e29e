"""Turns every failure of a command into a plain message and an exit code, never a stack trace."""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from functools import cache
from typing import Final

import click

from penstock.cli.exits import INTERNAL, INTERRUPTED, exit_code
from penstock.cli.group import cli
from penstock.cli.printing import say
from penstock.errors import EnvironmentProblem, PenstockError

_LOST: Final = ("Py4JNetworkError", "Py4JError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError")

_SILENCE: Final = logging.NullHandler()


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _end_quietly()
    if "PENSTOCK_SPARK_LOG" not in os.environ:
        logging.getLogger().addHandler(_SILENCE)  # a JVM that dies makes py4j log stack traces, to the root logger even
    sys.exit(_outcome())


@cache
def _end_quietly() -> None:
    """Let nobody write to standard error once the process ends, after whatever else is done then.

    DataSketches lists there the sketches and functions that a thread still held, which says nothing to a user.
    """

    def silence() -> None:
        """Close the way to it."""
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    if "PENSTOCK_SPARK_LOG" not in os.environ:
        atexit.register(silence)


def _outcome() -> int:
    """Run the command line; return its exit code."""
    try:
        code = cli.main(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        say("interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        return _usage(error)
    except PenstockError as error:
        return _told(error)
    except Exception as error:
        return _unexpected(error)
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> int:
    """Print what is wrong with a command line, in which names of files may hold anything."""
    told = io.StringIO()
    error.show(told)
    say(told.getvalue().rstrip("\n"), err=True)
    return error.exit_code


def _told(error: PenstockError) -> int:
    """Print an error as users see it."""
    say(error, err=True)
    return exit_code(error)


def _unexpected(error: Exception) -> int:
    """Say what an unforeseen error is: a JVM that died, or a defect whose details are kept for a report."""
    if any(type(one).__name__ in _LOST for one in _chain(error)) and (lost := _spark_is_gone()) is not None:
        return _told(lost)
    kind, words = type(error).__name__, (str(error).splitlines() or [""])[0][:200]
    say(f"error[Internal]: something went wrong inside Penstock: {kind}{': ' if words else ''}{words}", err=True)
    say(f"detail: {_kept(error)}", err=True)
    say("hint: Please report it with these details and the command that you ran.", err=True)
    return INTERNAL


def _spark_is_gone() -> EnvironmentProblem | None:
    """Return the error for a JVM that was started and has ended."""
    if "penstock.spark.session.embedded" not in sys.modules:
        return None
    from penstock.spark.session.embedded import gone_away, jvm_ended

    return gone_away() if jvm_ended() else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """List an error and those that led to it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _kept(error: Exception) -> str:
    """Write the stack trace to a file and say where; if even that fails, say that."""
    try:
        handle, path = tempfile.mkstemp(prefix="penstock-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            traceback.print_exception(error, file=file)
    except OSError as problem:
        return f"the details could not be written: {problem.strerror}"
    return f"the details are in {path}"
