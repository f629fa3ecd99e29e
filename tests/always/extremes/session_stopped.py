"""Spark goes away under an engine, stopped or killed, idle or in a batch: a clear error, and a new engine goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from penstock.engine import Engine
from penstock.errors import PenstockError
from tests.always.extremes.fields import (
    batch_ends,
    expected,
    judge,
    prepare,
    session,
    sinks_in,
    write_files,
    wrong,
    wrongly_delivered,
)
from tests.always.extremes.trial import Trial

FILES = 12  # that are there when an engine starts
ROUNDS = 3


def run(trial: Trial, rounds: int = ROUNDS) -> None:
    """Let Spark go away in every way, some times each, always on the same folder."""
    files = trial.folder / "files"
    ways: list[tuple[str, Callable[[Engine], None]]] = [("stopped", _stop), ("killed", _kill)]
    written, ends = 0, set[int]()
    for number in range(rounds):
        for name, way in ways:
            for running in (False, True):
                write_files(files, range(written, written + FILES))
                written += FILES
                what = f"Spark {name} under {'a running' if running else 'an idle'} engine, round {number + 1}"
                _go_away(trial, files, what, way, running=running, draw=random.Random(f"{name}-{running}-{number}"))
                ends |= batch_ends(trial.folder / "state" / "checkpoint" / "s")
    with _engine(trial.folder) as engine:
        prepare(engine, files)
        engine.process_available(flush=True)
        model = expected(written, ends=ends | batch_ends(trial.folder / "state" / "checkpoint" / "s"))
        judge(trial, "a new engine goes on, and its answers are the model's", wrong(engine, model))
    trial.measure("files_given_out_with_the_next", written - len(ends))
    judge(trial, "the sinks hold each answer once", wrongly_delivered(trial.folder, model, left_out="more"))


def _engine(folder: Path) -> Engine:
    return Engine(folder / "state", spark=session("600m"), sinks=sinks_in(folder))


def _go_away(
    trial: Trial, files: Path, what: str, way: Callable[[Engine], None], *, running: bool, draw: random.Random
) -> None:
    """Let Spark go away under one engine, and hear what the engine says."""
    try:
        engine = _engine(trial.folder)
    except BaseException as error:
        trial.claim(f"{what}: a new engine opens in the same process", False, repr(error))
        raise
    prepare(engine, files)
    if running:
        before = engine.stream("s").pipeline.progress.clock.number
        engine.start()
        _until(lambda: engine.stream("s").pipeline.progress.clock.number > before + draw.randint(0, 4))
        time.sleep(draw.uniform(0, 0.4))
        way(engine)
        _until(lambda: not engine.running)
        trial.claim(f"{what}: the stream ends", not engine.running)
        trial.refused(f"{what}: stop() says why", engine.stop, "Spark")
    else:
        engine.process_available()
        way(engine)
        write_files(files, [])
        trial.refused(f"{what}: processing says why", engine.process_available, "Spark")
        for say, action in (
            ("a new query", lambda: engine.create_query("more", "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s]")),
            ("a question", lambda: engine.ask("SELECT count(*) AS n FROM s [RANGE 5 s]")),
        ):
            _clear(trial, f"{what}: {say} is answered or refused clearly", action)
        if "more" in {d.name for d in engine.catalog.definitions("s")}:
            engine.drop_query("more")
        _clear(trial, f"{what}: status and explain still tell", lambda: (engine.status(), str(engine.explain())))
        _clear(trial, f"{what}: answers so far are still there", lambda: engine.results("all"))
    _clear(trial, f"{what}: the engine closes", engine.close)


def _clear(trial: Trial, text: str, action: Callable[[], object]) -> None:
    """Claim that an action works, or raises an error of ours."""
    try:
        action()
    except PenstockError as error:
        trial.claim(text, True, error)
        trial.say(f"    {str(error).splitlines()[0]}")
    except BaseException as error:
        trial.claim(text, False, f"{type(error).__module__}.{type(error).__name__}: {str(error)[:300]}")
    else:
        trial.claim(text, True)


def _stop(engine: Engine) -> None:
    engine.session.stop()


def _kill(engine: Engine) -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that has just ended
            if child.name() == "java":
                child.kill()
                child.wait(10)


def _until(seen: Callable[[], bool], longest_s: float = 120.0) -> None:
    end = time.monotonic() + longest_s
    while not seen() and time.monotonic() < end:
        time.sleep(0.01)
