"""Maps each error to the exit code of the process."""

from __future__ import annotations

from typing import Final

from penstock.errors import (
    EnvironmentProblem,
    NotRunning,
    PenstockError,
    RequestFailed,
    SinkError,
    SourceError,
    StateError,
    StreamEnded,
)

EXIT_CODES: Final = {
    0: "done",
    1: "something is wrong with the text, the project or the data; also a failed check or test",
    2: "a wrong command line",
    3: "the environment: Java, Spark or Python are not as needed",
    4: "the run stopped, or a running engine was not reached: a source, a sink or the state folder",
    70: "a defect of Penstock itself; the message names a file with the details",
    130: "interrupted",
}
INTERNAL: Final = 70
INTERRUPTED: Final = 130
_STOPPED: Final = (SourceError, SinkError, StateError, StreamEnded, NotRunning, RequestFailed)


def exit_code(error: PenstockError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, EnvironmentProblem):
        return 3
    return 4 if isinstance(error, _STOPPED) else 1
