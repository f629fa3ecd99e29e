"""Real ends of real processes: one that delivers answers to a sink is killed again and again, then lives to the end.

``python -m tests.sinks.killed FOLDER KIND WHERE --kills N`` prints how many deaths there were. Each life is a process,
forked where everything is imported, so that the first thing it does is to open the sink. No Spark: answers are made by
their number, and a sink that lacks some is given them again, as the answer log would.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.model.instants import wall_clock_us
from penstock.sinks.outlet import Outlet
from penstock.sinks.progress import progress_of
from penstock.sinks.protocol import KeyedTables, Sink, names_of
from penstock.sinks.registry import SINKS
from penstock.store import faults
from penstock.store.folder import StateFolder

BATCHES: Final = 200
ROWS: Final = 500  # of a batch: 100,000 answers in all
STREAM: Final = "s"
START_US: Final = 1_767_600_000_000_000
MINUTE_US: Final = 60_000_000
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "webhook": {"allow_networks": "127.0.0.0/8", "batch_rows": 500},
    "delta": {"roll_bytes": 200_000},
}
LACKING: Final = 3  # how a life ends whose sink has not got everything


# -- answers -----------------------------------------------------------------------------------------------------------


def batch(number: int, rows: int = ROWS) -> KeyedTables:
    """Make the answers of a number: windows by symbol, windows that are revised, and windows alone."""
    plain, revised = rows * 3 // 5, _revised(number, rows * 2 // 5 - 1)
    keys = revised.select(["k"]).rename_columns(["#k0"])
    return KeyedTables([_plain(number, plain), revised, _alone(number)], [None, keys, None])


def _plain(number: int, rows: int) -> pa.Table:
    symbols = [f"S{place}'\\\\" for place in range(rows)]
    return _table("flow", number, rows, symbol=symbols, shares=[number * rows + place for place in range(rows)])


def _revised(number: int, rows: int) -> pa.Table:
    """Make windows of this number, and revise those of the one before; every third of these falls away."""
    half = rows // 2
    windows = [number] * (rows - half) + [max(number - 1, 0)] * half
    revisions = [0] * (rows - half) + [1] * half if number else [0] * rows
    ops = ["answer" if not r else ("retract" if place % 3 == 0 else "revise") for place, r in enumerate(revisions)]
    keys = [place if place < rows - half else place - (rows - half) for place in range(rows)]
    if not number:
        keys = list(range(rows))
    sums = [None if op == "retract" else number + key for op, key in zip(ops, keys, strict=True)]
    times = {"window": windows, "revision": pa.array(revisions, pa.int64()), "op": ops}
    return _table("Mended", number, rows, k=pa.array(keys, pa.int64()), total=pa.array(sums, pa.int64()), **times)


def _alone(number: int) -> pa.Table:
    return _table("pace", number, 1, n=[number])


def _table(query: str, number: int, rows: int, **columns: Any) -> pa.Table:
    starts = START_US + np.array(columns.pop("window", [number] * rows), np.int64) * MINUTE_US
    instant = pa.timestamp("us", "UTC")
    about = {
        "query_name": pa.array([query] * rows).dictionary_encode(),
        "query_version": pa.array([1] * rows, pa.int32()),
    }
    about |= {"window_start": pa.array(starts).cast(instant)}
    about |= {"window_end": pa.array(starts + MINUTE_US).cast(instant)}
    first = {name: columns.pop(name) for name in ("revision", "op") if name in columns}
    return pa.table(about | first | columns)


def every_batch(after: int = -1, batches: int = BATCHES) -> Iterator[tuple[int, list[pa.Table]]]:
    """Give the answers after a number."""
    return ((number, batch(number)) for number in range(after + 1, batches))


# -- lives -------------------------------------------------------------------------------------------------------------


def live(folder: Path, kind: str, where: str, tell: int) -> int:
    """Give a sink all that it lacks, and tell through a pipe when it is given each batch."""

    def missed(after: int) -> Iterator[tuple[int, list[pa.Table]]]:
        for number, tables in every_batch(after):
            os.write(tell, b".")
            yield number, tables

    state = StateFolder(folder / "state")
    sink: Sink = SINKS[kind].sink(where, **SETTINGS.get(kind, {}))
    [name] = names_of([sink])
    [memory] = progress_of(STREAM, [name], state)
    outlet = Outlet(name, sink, STREAM, memory, missed, wall_clock_us)
    os.write(tell, b".")
    outlet.attempt()
    outlet.roll()
    if outlet.failing is not None:
        print(outlet.failing.error, file=sys.stderr)
    return LACKING if outlet.failing is not None or outlet.taken != BATCHES - 1 else 0


class Life:
    """A process that delivers answers; it tells by a pipe how far it came."""

    def __init__(self, folder: Path, kind: str, where: str, moment: str | None = None, times: int = 1) -> None:
        """Begin; it may end at a moment of a durable write."""
        self._told, tell = os.pipe()
        self.process = os.fork()
        if self.process:
            os.close(tell)
            return
        code = 9
        try:
            if moment is not None:
                faults.hook = dying_at(moment, times)
            code = live(folder, kind, where, tell)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def end_after(self, batches: int, seconds: float) -> int | None:
        """Kill it a while after it was given some batches; the code of its end if it came before."""
        while batches >= 0 and os.read(self._told, 1):
            batches -= 1
        time.sleep(seconds)
        os.kill(self.process, signal.SIGKILL)
        return self.end()

    def end(self) -> int | None:
        """Wait for its end; None: it was killed."""
        _, status = os.waitpid(self.process, 0)
        os.close(self._told)
        return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def dying_at(moment: str, times: int) -> Callable[[str], None]:
    """Make what kills this process when it comes to a moment."""
    left = [times]

    def die(point: str) -> None:
        left[0] -= point == moment
        if point == moment and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def run(folder: Path, kind: str, where: str, kills: int, seed: int) -> dict[str, int]:
    """Kill lives at every durable write of the sink, others at any time, and let the last one live."""
    draw = random.Random(seed)
    assert SINKS[kind].sink  # so that all that lives need is loaded
    assert batch(0)
    points = ["sink.progress", *(point for point in faults.OUTER_POINTS if point.startswith(f"sink.{kind}"))]
    moments = [(f"{point}.{moment}", times) for point in points for moment in faults.MOMENTS for times in (1, 2)]
    at_points = [moment for moment, times in moments if Life(folder, kind, where, moment, times).end() is None]
    ends = [Life(folder, kind, where).end_after(draw.randint(0, 2), draw.uniform(0.0, 0.03)) for _ in range(kills)]
    code = Life(folder, kind, where).end()
    missed = [moment for moment, _ in moments if moment not in at_points]
    return {"at_points": len(at_points), "missed": len(missed), "at_random": ends.count(None), "code": code or 0}


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("folder", type=Path)
    asked.add_argument("kind")
    asked.add_argument("where")
    asked.add_argument("--kills", type=int, default=50)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    print(json.dumps(run(given.folder, given.kind, given.where, given.kills, given.seed)))
