"""Users' Python that raises, exits, is killed, recurses, allocates, hangs or lies: its query pauses, others go on."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.spark.functions import child_processes as in_child
from penstock.spark.functions.register import IDLE, WATCHED
from penstock.spark.sources.streaming_query import BATCH_SETTINGS
from tests.always.extremes.fields import expected, judge, prepare, session, write_files, wrong
from tests.always.extremes.trial import Trial, memory_mb

FILES = 4
BAD_ID = 250  # a row of the third file, on time
LIMIT_S = 5.0  # for a call, instead of a minute
SAMPLES = [(1,), (2,), (3,)]


def _raise() -> Any:
    raise ValueError("no such thing")


def _exit() -> Any:
    sys.exit(7)


def _exit_at_once() -> Any:
    os._exit(3)


def _kill() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _recurse() -> Any:
    def deeper(n: int) -> int:
        return deeper(n + 1) + 1

    return deeper(0)


def _allocate() -> Any:
    held = []
    for _ in range(6 * 16):  # 6 GB in pieces that are written to
        held.append(b"x" * (64 << 20))
    return len(held)


def _hang() -> Any:
    while True:
        time.sleep(1)


def _spin() -> Any:
    while True:
        pass


def _stubborn() -> Any:
    while True:
        try:
            while True:
                time.sleep(1)
        except BaseException:
            continue


def _wrong_type() -> Any:
    return "seven"


def _print() -> Any:
    print("said on standard output " * 100)
    print("said on standard error " * 100, file=sys.stderr)
    sys.stdout.flush()
    return 1


@dataclass(frozen=True, slots=True)
class Bad:
    """One way to misbehave: whether it fails its query at all, and what the reason must say."""

    act: Callable[[], Any]
    pauses: bool = True
    says: str = ""


WAYS = {
    "raises": Bad(_raise, says="ValueError"),
    "exits": Bad(_exit, says="SystemExit"),
    "ends its process": Bad(_exit_at_once),
    "kills its process": Bad(_kill),
    "recurses": Bad(_recurse, says="RecursionError"),
    "allocates 6 GB": Bad(_allocate),
    "hangs": Bad(_hang),
    "spins": Bad(_spin),
    "hangs and catches everything": Bad(_stubborn),
    "returns another type": Bad(_wrong_type, says="returned"),
    "prints": Bad(_print, pauses=False),
}


def run(trial: Trial, only: str = "") -> None:
    """Try every way by rows, by arrays, and in an aggregate.

    The driver itself calls combine and lower; there, only what Python can catch is caught.
    """
    files = trial.folder / "files"
    write_files(files, range(FILES))
    model = expected(FILES)
    in_child.LIMIT_S = LIMIT_S
    WATCHED[IDLE] = BATCH_SETTINGS[IDLE] = f"{LIMIT_S:g}s"
    for number, (way, bad) in enumerate(WAYS.items()):
        for kind in ("rows", "arrays", "lift", *(("combine", "lower") if bad.says or not bad.pauses else ())):
            if only in f"{way} {kind}":
                _try(trial, model, files, trial.folder / f"state{number}{kind}", way, kind, bad)


def _register(engine: Engine, kind: str, bad: Bad) -> str:
    """Register a function or aggregate that misbehaves on one row; return what its query selects."""
    act = bad.act
    if kind == "rows":
        engine.create_function("f", lambda i: act() if i == BAD_ID else i, parameters="i bigint", returns="bigint")
        return "sum(f(id)) AS total"
    if kind == "arrays":

        def by_arrays(ids: pa.Array) -> pa.Array:
            found = [act() if i == BAD_ID else i for i in ids.to_pylist()]
            return pa.array(found) if act is not _wrong_type else pa.array(found[:-1])

        engine.create_function("f", by_arrays, parameters="i bigint", returns="bigint", vectorised=True)
        return "sum(f(id)) AS total"

    class Sum:
        @staticmethod
        def lift(i: int) -> Any:
            return act() if kind == "lift" and i == BAD_ID else i

        @staticmethod
        def combine(a: Any, b: Any) -> Any:
            return act() if kind == "combine" and BAD_ID in (a, b) else a + b

        @staticmethod
        def lower(a: Any) -> int:
            return act() if kind == "lower" and a % 1_000 == BAD_ID else a

    engine.create_aggregate("f", Sum, samples=SAMPLES, parameters="i bigint", returns="bigint")
    where = "" if kind != "lower" else f" FILTER (WHERE id = {BAD_ID})"
    return f"f(id){where} AS total"


def _try(trial: Trial, model: Any, files: Path, state: Path, way: str, kind: str, bad: Bad) -> None:
    """Run one function to its bad row and beyond, then restart."""
    what = f"a function by {kind} that {way}" if kind in ("rows", "arrays") else f"an aggregate whose {kind} {way}"
    began = time.monotonic()
    with Engine(state, spark=session("800m")) as engine:
        prepare(engine, files)
        selects = _register(engine, kind, bad)
        engine.create_query("bad", f"SELECT {selects} FROM s [RANGE 5 s SLIDE 5 s]")
        engine.create_function("g", lambda i: i, parameters="i bigint", returns="bigint")
        engine.create_query("calls", "SELECT sum(g(id)) AS total FROM s [RANGE 5 s SLIDE 5 s]")
        outcome, seconds = _processed(engine)
        trial.figures.setdefault("seconds_by_way", {})[what] = round(seconds, 1)
        reason = _reason(engine)
        trial.say(f"{what}: {outcome.splitlines()[0]}; paused: {reason}")
        if trial.claim(f"{what}: the stream goes on", outcome == "done", outcome):
            if bad.pauses:
                says = "TypeError" if bad.act is _wrong_type and kind in ("lift", "combine") else bad.says
                said = reason is not None and says in reason
                trial.claim(f"{what}: its query is paused with the reason", said, reason)
            judge(trial, f"{what}: the other queries answer as the model", wrong(engine, model))
            right = sum(r["total"] or 0 for r in engine.results("calls", "rows"))
            trial.claim(f"{what}: queries with other functions answer", right > 0, right)
    trial.figures.setdefault("memory_after", {})[what] = memory_mb()
    try:
        with Engine(state, spark=session("800m")) as engine:
            again = _reason(engine)
            trial.claim(f"{what}: the state opens again", again == reason, again)
            engine.execute("DROP QUERY bad")
            if outcome != "done":
                engine.process_available(flush=True)
                judge(trial, f"{what}: without the query, the others answer", wrong(engine, model))
    except PenstockError as error:
        trial.claim(f"{what}: the state opens again", False, error)
    trial.say(f"{what}: {time.monotonic() - began:.1f} s in all")


def _processed(engine: Engine, longest_s: float = 150.0) -> tuple[str, float]:
    """Process all rows; one who takes too long is told to stop; say how it ended."""
    found: list[str] = []

    def work() -> None:
        try:
            engine.process_available(flush=True)
            found.append("done")
        except PenstockError as error:
            found.append(str(error))
        except BaseException as error:
            found.append(f"{type(error).__module__}.{type(error).__name__}: {error}")

    thread, began = threading.Thread(target=work, daemon=True), time.monotonic()
    thread.start()
    thread.join(longest_s)
    if not thread.is_alive():
        return found[0], time.monotonic() - began
    stopping = threading.Thread(target=engine.stop, daemon=True)
    stopping.start()
    thread.join(20)
    how = "stop() ended it" if not thread.is_alive() else "stop() did not end it"
    if thread.is_alive():
        _kill_workers()
        thread.join(60)
    return f"it hung for {longest_s:.0f} s; {how}; {found}", time.monotonic() - began


def _kill_workers() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        if child.name() != "java":
            child.kill()


def _reason(engine: Engine) -> str | None:
    definition = engine.catalog.query("bad")
    found = engine.stream("s").pipeline.progress.windows.paused.get(definition.id)
    return None if found is None else found.reason
