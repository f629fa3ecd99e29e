"""One life of an engine on a project's folder: as ``penstock run --once`` does, in this process or in one of its own.

``python -m tests.always.years.life FOLDER N`` kills itself with SIGKILL at the n-th moment of its durable writes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.store import faults

if TYPE_CHECKING:
    from penstock.engine import Engine


@dataclass(frozen=True, slots=True)
class Known:
    """What the engine says of a query: the version of its definition, and its first window, if any row came."""

    version: int
    first_end: int | None


@contextmanager
def opened(folder: Path) -> Iterator[Engine]:
    """Open an engine on the project, with its state and sinks, and bring it to what the folder says."""
    from penstock.project.folder import read_project
    from penstock.project.opening import enter_queries, enter_sources, open_engine

    project = read_project(folder)
    assert not project.problems, [str(problem.error) for problem in project.problems]
    with open_engine(project, state=project.settings.state, sinks=project.sinks()) as engine:
        enter_sources(project, engine)
        enter_queries(project, engine)
        yield engine


def known(engine: Engine) -> dict[str, Known]:
    """Tell the first windows of all queries."""
    first_ends = engine.stream("s").pipeline.progress.windows.first_ends
    definitions = [engine.catalog.query(name) for name in engine.catalog.query_names()]
    return {d.name: Known(engine.catalog.version_of(d.id), first_ends.get(d.id)) for d in definitions}


def dying_at(nth: int) -> None:
    """End this process, and all that it started, at the n-th moment of its durable writes."""
    left = nth

    def reached(point: str) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.killpg(0, signal.SIGKILL)

    faults.hook = reached


if __name__ == "__main__":
    from penstock.spark.session.embedded import embedded
    from tests.always.victim import INTERPRETED

    embedded(cores=1, memory="512m", settings=INTERPRETED)
    dying_at(int(sys.argv[2]))
    with opened(Path(sys.argv[1])) as run:
        run.process_available()
