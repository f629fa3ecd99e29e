"""Real ends of engines and of their functions' processes, while rows wait for these and are sampled.

``python -m tests.always.operator_kills --kills 200 --json FILE`` runs it by hand; begun again with the same folder, it
goes on. In each life some processes of functions are killed, and then the engine with its JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from penstock.spark.functions.resident_worker import PROGRAM
from tests.always import operated_victim as victim
from tests.always.kills import LONGEST_S, REPOSITORY, end_group
from tests.always.victim import BATCHES

TARGETS: Final = ("queued", "queued", "queued", "batch", "commit", "sinks", "recovering", "any")
AHEAD: Final = 10  # files that wait for an engine when it starts
WORKERS: Final = 5  # processes of functions that are killed in a life, at most
STEPS_BETWEEN: Final = 3  # a step is taken again twice: whoever kills its process a third time has its rows charged


@dataclass(frozen=True, slots=True)
class OperatorKill:
    """One death: of the engine or of a process of its functions, what it was doing, and what waited."""

    engine: bool
    aimed: str
    phase: str
    waiting: int  # commits with rows that waited for functions
    batches: int  # in this life

    def __str__(self) -> str:
        who = "engine" if self.engine else "process of functions"
        return f"{who} in {self.phase}, {self.waiting} commits wait, after {self.batches} batches"


class OperatorKilling:
    """A folder with files, an engine's state and its sinks, and the list of deaths so far."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        for name in ("files", "lines", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.files = len(list((folder / "files").glob("*.parquet")))
        self.list = folder / "kills.json"
        known: dict[str, Any] = json.loads(self.list.read_text()) if self.list.exists() else {"lives": 0, "kills": []}
        self.lives, self.kills = int(known["lives"]), [OperatorKill(**each) for each in known["kills"]]
        self.marks = victim.QueueMarks(folder / "marks")

    def live_once(self, workers: int | None = None, aimed: str | None = None) -> list[OperatorKill]:
        """Start an engine, kill some processes of its functions, and then the engine itself."""
        draw = random.Random(f"{self.seed}-{self.lives}")
        self._add_files(AHEAD)
        self.marks.clear()
        child, before = self._start(), len(self.kills)
        aimed = draw.choice(TARGETS) if aimed is None else aimed
        until = time.monotonic() + LONGEST_S
        try:
            if aimed != "recovering":
                self._until(child, lambda: self.marks.batches >= 1, until)
                for _ in range(draw.randint(2, WORKERS) if workers is None else workers):
                    self._kill_worker(child, draw, until)
            self._stop_in(child, aimed, draw, until)
        finally:
            end_group(child)
        self._note(OperatorKill(True, aimed, self.marks.phase, self.marks.waiting, self.marks.batches))
        self.lives += 1
        self._save()
        return self.kills[before:]

    def finish(self) -> None:
        """Let an engine in this process take all that is left, and end the stream."""
        with victim.opened(self.folder) as engine:
            victim.mark_batches(engine, self.marks, self.folder)
            engine.process_available(flush=True)
            assert [q["query"] for q in engine.status()["queries"] if q["state"] == "paused"] == []
            self.hashes = victim.hashes_in(engine.session, self.folder)

    def check(self) -> dict[str, int]:
        """Compare both sinks with the rows, one by one; return how many answers there are."""
        levels = victim.levels_in(self.folder)
        assert len(levels) == self.files, "not all files were read"
        wanted = victim.wanted(levels, self.hashes)
        found = victim.held_in(self.folder)
        for name, held in found.items():
            assert not held - wanted, f"{name}: twice, or never given: {list((held - wanted).items())[:5]}"
            assert not wanted - held, f"{name}: lost: {list((wanted - held).items())[:5]}"
        return {name: held.total() for name, held in found.items()} | {"levels": len(set(levels))}

    def _kill_worker(self, child: subprocess.Popen[bytes], draw: random.Random, until: float) -> None:
        """Kill a process of functions, most often while it has a step, once others were done since the last."""
        steps, found = self.marks.steps, list[psutil.Process]()

        def ready() -> bool:
            nonlocal found
            if not self.marks.waiting:
                self._add_files(2)
            found = _workers_of(child.pid)
            return bool(found) and self.marks.waiting > 0 and self.marks.steps >= steps + STEPS_BETWEEN

        self._until(child, ready, until, every_s=0.05)
        time.sleep(draw.uniform(0, 0.3))
        chosen = draw.choice(found)
        if chosen.is_running():
            chosen.kill()
            self._note(OperatorKill(False, "worker", self.marks.phase, self.marks.waiting, self.marks.batches))

    def _stop_in(self, child: subprocess.Popen[bytes], aimed: str, draw: random.Random, until: float) -> None:
        """Stop the engine where it is to die."""
        if aimed == "recovering":
            self._until(child, lambda: self.marks.phase != "starting", until)
            time.sleep(draw.uniform(0, 1.5))
        elif aimed == "any":
            time.sleep(draw.uniform(0, 2))
        else:
            self._until(child, lambda: self._is_in(aimed), until)
            time.sleep(draw.uniform(0, 0.1) if aimed in ("queued", "batch") else 0)
        os.killpg(child.pid, signal.SIGSTOP)

    def _is_in(self, aimed: str) -> bool:
        """Tell whether the engine does what is aimed at; it is given more to do if it has nothing."""
        if self.marks.phase == "idle" and not self.marks.waiting:
            self._add_files(1)
            time.sleep(0.05)
        return self.marks.waiting > 0 if aimed == "queued" else self.marks.phase == aimed

    def _until(
        self, child: subprocess.Popen[bytes], seen: Callable[[], bool], until: float, every_s: float = 0.001
    ) -> None:
        while not seen():
            if child.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the engine did not get there: {(self.folder / 'log').read_text()[-4_000:]}")
            time.sleep(every_s)

    def _note(self, kill: OperatorKill) -> None:
        self.kills.append(kill)
        self._save()

    def _save(self) -> None:
        self.list.write_text(json.dumps({"lives": self.lives, "kills": [asdict(each) for each in self.kills]}))

    def _add_files(self, most: int) -> None:
        """Let files appear, as long as not many wait."""
        read = self.folder / BATCHES
        taken = len(set(read.read_text().split("\n"))) if read.exists() else 0
        for _ in range(min(most, max(0, taken + AHEAD - self.files))):
            victim.write_file(self.folder / "files", self.files)
            self.files += 1

    def _start(self) -> subprocess.Popen[bytes]:
        """Start an engine in a process group of its own."""
        told = ["--live", str(self.folder), "--life", str(self.lives)]
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.always.operator_kills", *told],
                cwd=REPOSITORY,
                env=os.environ | {"SPARK_SUBMIT_OPTS": quick},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _workers_of(pid: int) -> list[psutil.Process]:
    """List the processes of functions of an engine."""
    try:
        children = psutil.Process(pid).children()
        return [one for one in children if PROGRAM in one.cmdline()]
    except psutil.Error:
        return []


def run(
    folder: Path,
    kills: int,
    *,
    seed: int = 4,
    most_seconds: float = 1e9,
    workers: int | None = None,
    aims: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Kill until there were enough deaths, or time is over; let a last engine finish, and compare."""
    killing, began = OperatorKilling(folder, seed), time.monotonic()
    try:
        while len(killing.kills) < kills and time.monotonic() - began < most_seconds:
            aimed = aims[killing.lives] if killing.lives < len(aims) else None
            for kill in killing.live_once(workers, aimed):
                say(f"life {killing.lives}: {kill}")
        killing.finish()
        answers = killing.check()
    finally:
        killing.marks.close()
    died = killing.kills
    return {
        "kills": len(died),
        "engines": sum(k.engine for k in died),
        "workers": sum(not k.engine for k in died),
        "queued": sum(k.waiting > 0 for k in died),
        "phases": dict(Counter(k.phase for k in died).most_common()),
        "files": killing.files,
        "answers": answers,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--most-seconds", type=float, default=1e9, help="stop killing after so long, and compare")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "penstock-operator-kills")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--live", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--life", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.live:
        victim.live(given.live, given.life)
        return
    told = {"seed": given.seed, "most_seconds": given.most_seconds}
    figures = run(given.folder, given.kills, **told, say=lambda text: print(text, flush=True))
    print(json.dumps(figures, indent=2))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    shutil.rmtree(given.folder)  # all was right: the next run starts anew


if __name__ == "__main__":
    main()
