"""Real ends of real processes: an engine is killed again and again, and its sinks must hold what the model holds.

``python -m tests.always.kills --kills 200 --json FILE`` runs it by hand; begun again with the same folder, it goes on.
With ``--lagging``, answers lag behind rows, and what the dead had not answered is read from the state folder.
The engine runs in a process group of its own, its JVM included, and notes in one shared byte what it is doing, so
that the moment of death is known from what the dead left behind.
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

from tests.always import chained
from tests.always.behind import queries_behind
from tests.always.delivered import counted, delivered, lines_in, tables_in
from tests.always.victim import (
    KINDS,
    LAGGING,
    LATENESS_US,
    Marks,
    batches_in,
    batches_of,
    expected,
    live,
    mark_batches,
    opened,
    write_file,
)

REPOSITORY: Final = Path(__file__).resolve().parents[2]
INSIDE: Final = ("batch", "commit", "answers", "sinks")  # a batch or a commit
TARGETS: Final = (*INSIDE, *INSIDE, *INSIDE, "recovering", "any")
BEHIND: Final = "behind"  # whatever it does, while windows are final and not answered
LAGGING_TARGETS: Final = (*INSIDE, BEHIND, BEHIND, BEHIND, "recovering", "any")
AHEAD: Final = 12  # files that wait for an engine when it starts
LONGEST_S: Final = 500.0  # that an engine may take to come to where it is to die, on a busy machine


@dataclass(frozen=True, slots=True)
class Kill:
    """One death: what was aimed at, what the dead was doing, in which batch of its life, and when."""

    aimed: str
    phase: str
    batches: int
    seconds: float
    waiting: int = 0  # queries with windows that were final and not answered

    @property
    def inside(self) -> bool:
        return self.phase in INSIDE

    @property
    def missed(self) -> bool:
        return self.aimed in INSIDE and not self.inside

    def __str__(self) -> str:
        behind = f", {self.waiting} queries behind" if self.waiting else ""
        return f"in {self.phase}, after {self.batches} batches, {self.seconds:.1f} s{behind}"


class Killing:
    """A folder with files, an engine's state and its sinks, and the list of deaths so far.

    ``aims`` says what the first deaths are aimed at; the others are drawn.
    """

    def __init__(self, folder: Path, kind: str, seed: int, aims: Sequence[str] = ()) -> None:
        self.folder, self.kind, self.seed, self.aims = folder, kind, seed, aims
        for name in ("files", "lines", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.files = len(list((folder / "files").glob("*.parquet")))
        self.list = folder / "kills.json"
        known = json.loads(self.list.read_text()) if self.list.exists() else []
        self.kills = [Kill(**each) for each in known]
        self.marks = Marks(folder / "marks")

    def once(self) -> Kill:
        """Start an engine, let it come to the moment that is aimed at, and kill it."""
        number = len(self.kills)
        draw = random.Random(f"{self.seed}-{number}")
        more = 1 if self.kind == LAGGING else draw.randint(1, 6)  # lives of that kind are short
        for _ in range(more if self.files else AHEAD):
            self._add_file()
        began = time.monotonic()
        self.marks.clear()
        child = self._start(*["--behind"] * (number >= 1), "--life", str(number))
        drawn = draw.choice(LAGGING_TARGETS if self.kind == LAGGING else TARGETS)
        aimed = self.aims[number] if number < len(self.aims) else drawn
        try:
            self._await(child, aimed, draw)
        finally:
            end_group(child)
        seconds, waiting = round(time.monotonic() - began, 2), queries_behind(self.folder / "state")
        kill = Kill(aimed, self.marks.phase, self.marks.batches, seconds, waiting)
        self.kills.append(kill)
        self.list.write_text(json.dumps([asdict(each) for each in self.kills]))
        for _ in range(kill.batches):
            self._add_file()
        return kill

    def finish(self) -> None:
        """Let an engine in this process take all that is left, and end the stream."""
        with opened(self.folder, self.kind, add_behind=True) as engine:
            mark_batches(engine.stream("s").pipeline, self.marks, self.folder)
            engine.process_available(flush=True)

    def check(self) -> dict[str, int]:
        """Compare both sinks with the model; return how many answers there are."""
        lasts = batches_in(self.folder)
        assert lasts[-1] == self.files - 1, "not all files were read"
        wanted = delivered(expected(self.kind, lasts))
        if self.kind == "keys":
            wanted += counted(chained.held(list(batches_of(lasts, self.kind)), LATENESS_US))
        found = {"lines": lines_in(self.folder / "lines"), "tables": tables_in(self.folder / "tables")}
        for name, held in found.items():
            assert not held - wanted, f"{name}: twice, or never given: {list((held - wanted).items())[:5]}"
            assert not wanted - held, f"{name}: lost: {list((wanted - held).items())[:5]}"
        return {name: held.total() for name, held in found.items()}

    def _await(self, child: subprocess.Popen[bytes], aimed: str, draw: random.Random) -> None:
        """Wait until the engine does what is aimed at, in some batch of its life."""
        wished, until = draw.randint(0, 2 if self.kind == LAGGING else 4), time.monotonic() + LONGEST_S
        if aimed == "recovering":
            self._until(child, lambda: self.marks.phase != "starting", until)
            time.sleep(draw.uniform(0, 0.6))
            return
        self._until(child, lambda: self.marks.batches >= wished, until)
        if aimed == "any":
            time.sleep(draw.uniform(0, 0.5))
            return
        if aimed == BEHIND:
            self._stop_behind(child, draw, until)
            return
        if aimed == "batch":
            self._until(child, lambda: self.marks.phase == "idle", until)
        self._stop_in(child, aimed, draw, until)

    def _stop_in(self, child: subprocess.Popen[bytes], aimed: str, draw: random.Random, until: float) -> None:
        """Stop the engine while it does something: on a busy machine, it would be elsewhere when it is killed."""
        process = psutil.Process(child.pid)
        while True:
            self._see(child, aimed, until)
            if aimed == "batch":
                time.sleep(draw.uniform(0, 0.1))
            os.killpg(child.pid, signal.SIGSTOP)
            self._until(child, lambda: process.status() == psutil.STATUS_STOPPED, until)
            if self.marks.phase in INSIDE:
                return
            self._add_file()  # it went on before it could be stopped, and perhaps to the last file
            os.killpg(child.pid, signal.SIGCONT)

    def _stop_behind(self, child: subprocess.Popen[bytes], draw: random.Random, until: float) -> None:
        """Stop the engine at some moment at which its folder holds windows that are final and not answered."""
        process, passed = psutil.Process(child.pid), self.marks.batches
        while True:
            self._until(child, lambda: self.marks.batches > 0, until)
            time.sleep(draw.uniform(0, 0.1))
            os.killpg(child.pid, signal.SIGSTOP)
            self._until(child, lambda: process.status() == psutil.STATUS_STOPPED, until)
            if queries_behind(self.folder / "state"):
                return
            if self.marks.batches > passed:
                passed = self.marks.batches
                self._add_file()
            os.killpg(child.pid, signal.SIGCONT)

    def _see(self, child: subprocess.Popen[bytes], aimed: str, until: float) -> None:
        """Wait until the engine is seen in a phase; a batch in which it was missed is followed by one more."""
        passed = self.marks.batches

        def seen() -> bool:
            nonlocal passed
            if self.marks.batches > passed:
                passed = self.marks.batches
                self._add_file()
            return self.marks.phase == aimed

        self._until(child, seen, until)

    def _until(self, child: subprocess.Popen[bytes], seen: Callable[[], bool], until: float) -> None:
        while not seen():
            if child.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the engine did not get there: {(self.folder / 'log').read_text()[-4_000:]}")
            time.sleep(0.0002)

    def _add_file(self) -> None:
        write_file(self.folder / "files", self.files, self.kind)
        self.files += 1

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start an engine in a process group of its own."""
        command = [sys.executable, "-m", "tests.always.kills", "--live", str(self.folder), self.kind, *options]
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=os.environ | {"SPARK_SUBMIT_OPTS": quick},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def end_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it started, and wait until nothing of it is left."""
    try:
        family = [p for p in psutil.process_iter() if _group_of(p.pid) == child.pid]
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        family = []
    child.wait()
    psutil.wait_procs(family, timeout=10)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def run(
    folder: Path,
    kills: int,
    *,
    seed: int = 4,
    aims: Sequence[str] = (),
    kinds: Sequence[str] = KINDS,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Kill until there were enough deaths of all kinds, let the last engines finish, and compare.

    The kinds take turns in ``aims``: what the first deaths are aimed at.
    """
    died: list[Kill] = []
    answers: Counter[str] = Counter()
    files = 0
    for part, kind in enumerate(kinds):
        killing = Killing(folder / kind, kind, seed, aims[part :: len(kinds)])
        share = len(range(part, kills, len(kinds)))
        try:
            while len(killing.kills) < share:
                kill = killing.once()
                say(f"{kind}: kill {len(killing.kills)} of {share}: {kill}")
            killing.finish()
            answers.update(killing.check())
        finally:
            killing.marks.close()
        died, files = died + killing.kills, files + killing.files
    return {
        "kills": len(died),
        "inside": sum(k.inside for k in died),
        "missed": sum(k.missed for k in died),
        "behind": sum(k.waiting > 0 for k in died),
        "inside_share": round(sum(k.inside for k in died) / max(1, len(died)), 3),
        "phases": dict(Counter(k.phase for k in died).most_common()),
        "files": files,
        "answers": dict(answers),
        "median_seconds": sorted(k.seconds for k in died)[len(died) // 2] if died else None,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "penstock-kills")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--lagging", action="store_true", help="kill engines whose answers lag behind their rows")
    parser.add_argument("--live", nargs=2, metavar=("FOLDER", "KIND"), help=argparse.SUPPRESS)
    parser.add_argument("--behind", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--life", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.live:
        live(Path(given.live[0]), given.live[1], add_behind=given.behind, life=given.life)
        return
    kinds = (LAGGING,) if given.lagging else KINDS
    figures = run(given.folder, given.kills, seed=given.seed, kinds=kinds, say=lambda text: print(text, flush=True))
    print(json.dumps(figures, indent=2))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    shutil.rmtree(given.folder)  # all was right: the next run starts anew


if __name__ == "__main__":
    main()
