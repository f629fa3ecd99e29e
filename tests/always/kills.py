"""Real ends of real processes: an engine is killed again and again, and its sinks must hold what the model holds.

``python -m tests.always.kills --kills 200 --json FILE`` runs it by hand; begun again with the same folder, it goes on.
The engine runs in a process group of its own, its JVM included, and notes in one shared byte what it is doing, so
that the moment of death is known from what the dead left behind.
"""

from __future__ import annotations

import argparse
import json
import mmap
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
import pyarrow.parquet as pq

from tests.always.judged import SECOND, batch_of, delivered, lines_in, tables_in
from tests.always.model import Model, Question, Row

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PHASES: Final = ("starting", "recovering", "idle", "batch", "commit", "answers", "sinks", "catalog")
INSIDE: Final = ("batch", "commit", "answers", "sinks")  # a batch or a commit
TARGETS: Final = (*INSIDE, *INSIDE, *INSIDE, "recovering", "any")
START_US: Final = 1_700_000_000 * SECOND
STEP_US: Final = 4 * SECOND  # of event time from file to file
LATENESS_US: Final = 2 * SECOND
AHEAD: Final = 12  # files that wait for an engine when it starts
LONGEST_S: Final = 120.0  # that an engine may take to come to where it is to die
STREAM: Final = (
    "CREATE STREAM s (id BIGINT, ts TIMESTAMP, k STRING, j INT, v BIGINT) USING parquet "
    "OPTIONS (path = '{path}', maxFilesPerTrigger = '1'{dedup}) WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"
)
# Either duplicates are told apart as rows come, or a query comes that asks for the past, which duplicates rule out.
KINDS: Final = ("keys", "past")
QUESTIONS: Final = {
    "all": Question(10 * SECOND, 5 * SECOND, 0, (), ("count(*)", "sum(v)")),
    "odd": Question(13 * SECOND, 3 * SECOND, 1_500_000, (), ("max(v)",), "v > 3"),
    "keys": Question(20 * SECOND, 10 * SECOND, 0, ("k",), ("count(*)", "min(v)")),
    "pairs": Question(4 * SECOND, 4 * SECOND, 0, ("k", "j"), ("sum(v)",), None, "count(*) > 1"),
    "mended": Question(10 * SECOND, 10 * SECOND, 0, ("k",), ("count(*)", "sum(v)"), None, None, 30 * SECOND),
}
# Entered on the way and answered from the first row on. Its rows are never late: when it came makes no difference.
BEHIND: Final = Question(15 * SECOND, 5 * SECOND, 0, (), ("count(*)",), "k = 'z'", options=("from = 'beginning'",))


# -- rows ----------------------------------------------------------------------------------------------------------


def rows_of(number: int) -> list[Row]:
    """Make the rows of a file: most on time, some late, one without a time now and then, some twice."""
    draw, base = random.Random(number), START_US + number * STEP_US
    rows: list[Row] = [] if number else [_row(99, base - 16 * SECOND, None, draw)]  # no later row is earlier
    for place in range(draw.randint(6, 12)):
        far = draw.choice([draw.randint(-3_000_000, 5_000_000), draw.randint(-15_000_000, -3_000_000)])
        ts = None if draw.random() < 0.03 else base + far
        rows.append(_row(number * 100 + place, ts, draw.choice([None, "a", "b", "c"]), draw))
    rows += [_row(number * 100 + 50 + i, base + draw.randint(0, 4_999_999), "z", draw) for i in range(3)]
    if number and draw.random() < 0.5:
        rows.append(draw.choice(rows_of(number - 1)))
    return rows


def _row(number: int, ts: int | None, key: str | None, draw: random.Random) -> Row:
    value = None if draw.random() < 0.1 else draw.randint(-3, 12)
    return {"id": number, "ts": ts, "k": key, "j": draw.randint(0, 2), "v": value}


def write_file(folder: Path, number: int) -> None:
    """Let a file appear, whole, and younger than the ones before it."""
    draft, path = folder / f".{number:06d}.draft", folder / f"{number:06d}.parquet"
    pq.write_table(batch_of(rows_of(number)), draft)
    os.utime(draft, (START_US // SECOND + number, START_US // SECOND + number))
    draft.replace(path)


def expected(kind: str, files: int) -> Model:
    """Work out what the sinks should hold after so many files, each a batch of its own."""
    model = Model(LATENESS_US, 600 * SECOND, 0, ("id",) if kind == "keys" else ())
    for name, question in [*QUESTIONS.items(), *([("behind", BEHIND)] if kind == "past" else [])]:
        model.create(name, question, None)
    for number in range(files):
        model.batch(rows_of(number), 1 << 60)
    model.flush()
    return model


# -- the engine's process ------------------------------------------------------------------------------------------


class Marks:
    """A few bytes that two processes share: what the engine does now, and how many batches it did in this life."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(16))
        self._file = path.open("r+b")
        self._bytes = mmap.mmap(self._file.fileno(), 16)

    @property
    def phase(self) -> str:
        return PHASES[self._bytes[0]]

    @phase.setter
    def phase(self, name: str) -> None:
        self._bytes[0] = PHASES.index(name)

    @property
    def batches(self) -> int:
        return int.from_bytes(self._bytes[8:16], "little")

    @batches.setter
    def batches(self, number: int) -> None:
        self._bytes[8:16] = number.to_bytes(8, "little")

    def clear(self) -> None:
        self._bytes[:] = bytes(16)

    def close(self) -> None:
        self._bytes.close()
        self._file.close()


def live(folder: Path, kind: str, *, add_behind: bool, finish: bool) -> None:
    """Run an engine on the folder's files until it is killed, or to the end of the stream."""
    from penstock.engine import Engine
    from penstock.sinks.jsonl import JsonLinesSink
    from penstock.sinks.parquet import ParquetSink
    from penstock.sinks.protocol import Sink
    from penstock.spark.session import embedded
    from penstock.store import faults

    marks = Marks(folder / "marks")
    session = embedded(cores=2, memory="512m")
    marks.phase = "recovering"
    faults.hook = lambda point: _note(marks, point)
    sinks: list[Sink] = [
        JsonLinesSink(folder / "lines", roll_bytes=20_000),
        ParquetSink(folder / "tables", roll_seconds=1.0),
    ]
    with Engine(folder / "state", spark=session, sinks=sinks) as engine:
        if "s" not in engine.catalog.stream_names():
            engine.execute(STREAM.format(path=folder / "files", dedup=", dedup = 'id'" if kind == "keys" else ""))
        known = {d.name for d in engine.catalog.definitions("s")}
        for name, question in QUESTIONS.items():
            if name not in known:
                engine.create_query(name, question.sql())
        if add_behind and kind == "past" and "behind" not in known:
            engine.create_query("behind", BEHIND.sql())
        _mark_batches(engine.stream("s").pipeline, marks)
        if finish:
            engine.process_available(flush=True)
            return
        engine.start()
        while engine.running:
            time.sleep(0.1)


def _note(marks: Marks, point: str) -> None:
    """Tell by the durable write that the engine comes to what it does."""
    kind = point.split(".")[0]
    known = {"partials": "commit", "commit": "commit", "answers": "answers", "sink": "sinks", "catalog": "catalog"}
    if marks.phase != "recovering":
        marks.phase = known.get(kind, marks.phase)


def _mark_batches(pipeline: Any, marks: Marks) -> None:
    """Note the beginning and the end of each batch."""
    process: Callable[..., None] = pipeline.process

    def marking(*arguments: Any, **options: Any) -> None:
        marks.phase = "batch"
        process(*arguments, **options)
        marks.batches += 1
        marks.phase = "idle"

    pipeline.process = marking
    marks.phase = "idle"


# -- the one who kills ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kill:
    """One death: what was aimed at, what the dead was doing, in which batch of its life, and when."""

    aimed: str
    phase: str
    batches: int
    seconds: float

    @property
    def inside(self) -> bool:
        return self.phase in INSIDE

    def __str__(self) -> str:
        return f"in {self.phase}, after {self.batches} batches, {self.seconds:.1f} s"


class Killing:
    """A folder with files, an engine's state and its sinks, and the list of deaths so far."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.folder, self.kind, self.seed = folder, kind, seed
        for name in ("files", "lines", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.files = len(list((folder / "files").glob("*.parquet")))
        self.list = folder / "kills.json"
        known = json.loads(self.list.read_text()) if self.list.exists() else []
        self.kills = [Kill(**each) for each in known]
        self.marks = Marks(folder / "marks")

    def once(self) -> Kill:
        """Start an engine, let it come to a random moment, and kill it."""
        number = len(self.kills)
        draw = random.Random(f"{self.seed}-{number}")
        for _ in range(draw.randint(1, 6) if self.files else AHEAD):
            self._add_file()
        began = time.monotonic()
        self.marks.clear()
        child = self._start(*["--behind"] * (number >= 1))
        aimed = draw.choice(TARGETS)
        try:
            self._await(child, aimed, draw)
        finally:
            end_group(child)
        kill = Kill(aimed, self.marks.phase, self.marks.batches, round(time.monotonic() - began, 2))
        self.kills.append(kill)
        self.list.write_text(json.dumps([asdict(each) for each in self.kills]))
        for _ in range(kill.batches):
            self._add_file()
        return kill

    def finish(self) -> None:
        """Let an engine take all that is left, and end the stream."""
        child = self._start("--behind", "--finish")
        try:
            code = child.wait(600)
        finally:
            end_group(child)
        assert code == 0, (self.folder / "log").read_text()[-4_000:]

    def check(self) -> dict[str, int]:
        """Compare both sinks with the model; return how many answers there are."""
        wanted = delivered(expected(self.kind, self.files))
        found = {"lines": lines_in(self.folder / "lines"), "tables": tables_in(self.folder / "tables")}
        for name, held in found.items():
            assert not held - wanted, f"{name}: twice, or never given: {list((held - wanted).items())[:5]}"
            assert not wanted - held, f"{name}: lost: {list((wanted - held).items())[:5]}"
        return {name: held.total() for name, held in found.items()}

    def _await(self, child: subprocess.Popen[bytes], aimed: str, draw: random.Random) -> None:
        """Wait until the engine does what is aimed at, in some batch of its life."""
        wished, until = draw.randint(0, 4), time.monotonic() + LONGEST_S
        if aimed == "recovering":
            self._until(child, lambda: self.marks.phase != "starting", until)
            time.sleep(draw.uniform(0, 0.6))
            return
        self._until(child, lambda: self.marks.batches >= wished, until)
        if aimed == "any":
            time.sleep(draw.uniform(0, 0.5))
            return
        if aimed == "batch":
            self._until(child, lambda: self.marks.phase == "idle", until)
        self._until(child, lambda: self.marks.phase == aimed, until)
        if aimed == "batch":
            time.sleep(draw.uniform(0, 0.1))

    def _until(self, child: subprocess.Popen[bytes], seen: Callable[[], bool], until: float) -> None:
        while not seen():
            if child.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the engine did not get there: {(self.folder / 'log').read_text()[-4_000:]}")
            time.sleep(0.0002)

    def _add_file(self) -> None:
        write_file(self.folder / "files", self.files)
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


def run(folder: Path, kills: int, *, seed: int = 4, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Kill until there were enough deaths of both kinds, let the last engines finish, and compare."""
    died: list[Kill] = []
    answers: Counter[str] = Counter()
    files = 0
    for part, kind in enumerate(KINDS):
        killing = Killing(folder / kind, kind, seed)
        share = kills // 2 if part else kills - kills // 2
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
    parser.add_argument("--live", nargs=2, metavar=("FOLDER", "KIND"), help=argparse.SUPPRESS)
    parser.add_argument("--behind", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--finish", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.live:
        live(Path(given.live[0]), given.live[1], add_behind=given.behind, finish=given.finish)
        return
    figures = run(given.folder, given.kills, seed=given.seed, say=lambda text: print(text, flush=True))
    print(json.dumps(figures, indent=2))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    shutil.rmtree(given.folder)  # all was right: the next run starts anew


if __name__ == "__main__":
    main()
