"""Runs the windows in Flink: one job, a statement set with one HOP query for each window.

Flink has a Python of its own (``make flink``), as its dependencies conflict with ours. Its process stays for the whole
benchmark, so that Java stays warm. What was chosen, so that Flink is a fair rival:

- Times are the job's own run time, as Flink tells it. Planning and the start of the local cluster are told apart.
- The heap is 4 GB and managed memory 2 GB, parallelism is the number of cores, a checkpoint is made every 10 seconds,
  and objects are reused, which saves about a seventh of the processor time of 64 queries.
- Files are read in any order, by several readers, so a watermark close to the newest row would drop most rows as late.
  The watermark stays a day (or as long as the stream is) behind. Windows end with the input.
- The wheel writes no Parquet, so answers are CSV files.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench._peers.trades import Case, PeerRun, Trades, read_answers

VARIABLE: Final = "PENSTOCK_FLINK_PYTHON"
HOUSE: Final = Path(__file__).resolve().parents[2]
ABSENT: Final = f"there is no Python with Flink: run make flink, or name one in {VARIABLE}"
JOB: Final = Path(__file__).with_name("flink_job.py")
MARK: Final = "FLINK "
HEAP: Final = "4g"
COLUMNS: Final = "ts TIMESTAMP(3), symbol STRING, price DOUBLE, volume INT"


class FlinkFailed(RuntimeError):
    """A job of Flink's failed, or Flink did not start."""


def flink_python(environment: Mapping[str, str] = os.environ, house: Path = HOUSE) -> Path | None:
    """Find Flink's Python: the one that is named, else the one of ``make flink``."""
    named = environment.get(VARIABLE)
    path = Path(named) if named else house / ".flink" / "bin" / "python"
    return path if path.exists() else None


class Flink:
    """Flink's process, which runs one job after the other."""

    def __init__(self, python: Path, scratch: Path) -> None:
        self._log = (scratch / "flink.log").open("w+")
        environment = {**os.environ, "JVM_ARGS": f"-Xmx{HEAP}"}
        environment.pop("PYTHONPATH", None)
        self._process = subprocess.Popen(
            [str(python), str(JOB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=scratch,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # it ends with its input
        self._log.close()

    def job(self, tables: Sequence[str], inserts: Sequence[str], checkpoints: Path) -> dict[str, float]:
        """Run a job; return its seconds."""
        assert self._process.stdin is not None
        asked = {"tables": tables, "inserts": inserts, "settings": settings(checkpoints)}
        try:
            print(json.dumps(asked), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise FlinkFailed(self._why_ended()) from None
        found = self._answer()
        if "failed" in found:
            raise FlinkFailed(first_lines(found["failed"]))
        return found

    def _answer(self) -> dict[str, Any]:
        """Read the next answer between Flink's own lines."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MARK):
                found: dict[str, Any] = json.loads(line.removeprefix(MARK))
                return found
        raise FlinkFailed(self._why_ended())

    def _why_ended(self) -> str:
        """Read off the log why the process ended."""
        self._process.wait()
        self._log.seek(0)
        return f"Flink's process ended: {first_lines(self._log.read())}"


def settings(checkpoints: Path) -> dict[str, str]:
    """Set what a local cluster is not given by itself."""
    return {
        "parallelism.default": str(os.cpu_count()),
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": checkpoints.as_uri(),
        "taskmanager.memory.managed.size": "2g",
        "taskmanager.memory.network.min": "1g",  # hundreds of queries exchange rows at the same time
        "taskmanager.memory.network.max": "1g",
        "pipeline.object-reuse": "true",  # rows are not copied for every query
        "table.local-time-zone": "UTC",
    }


def run(flink: Flink, trades: Trades, case: Case, folder: Path) -> PeerRun:
    """Run one case."""
    key = "symbol STRING, " if case.by_symbol else ""
    answers = folder / "answers"
    tables = [source("trades", COLUMNS, trades.folder, "1")]
    names = [f"q{number}" for number in range(len(case.windows))]
    tables += [sink(name, f"window_end TIMESTAMP(3), {key}v DOUBLE, n BIGINT", answers / name) for name in names]
    took = flink.job(tables, inserts(case), folder / "checkpoints")
    seconds = took.pop("seconds")
    return PeerRun(seconds, answers_in(answers, case.by_symbol), took)


def source(name: str, columns: str, folder: Path, lag_days: str) -> str:
    """Declare files as a stream."""
    lag = f"INTERVAL '{lag_days}' DAY({len(lag_days)})"
    return f"CREATE TABLE {name} ({columns}, WATERMARK FOR ts AS ts - {lag}) WITH {_files(folder)}"


def sink(name: str, columns: str, folder: Path) -> str:
    """Declare a folder that takes answers."""
    return f"CREATE TABLE {name} ({columns}) WITH {_files(folder)}"


def hop(table: str, range_s: int, slide_s: int) -> str:
    """Write windows over a table; Flink wants to know how many digits a number of seconds has."""
    slide, size = (f"INTERVAL '{s}' SECOND({len(str(s))})" for s in (slide_s, range_s))
    return f"TABLE(HOP(TABLE {table}, DESCRIPTOR(ts), {slide}, {size}))"


def inserts(case: Case) -> list[str]:
    """Write every query as an insert into its own table."""
    key = "symbol, " if case.by_symbol else ""
    return [
        f"INSERT INTO q{number} SELECT window_end, {key}SUM(price * volume), COUNT(*) "
        f"FROM {hop('trades', window.range_s, window.slide_s)} GROUP BY {key}window_start, window_end"
        for number, window in enumerate(case.windows)
    ]


def answers_in(folder: Path, by_symbol: bool) -> Any:
    """Read the answers of all queries."""
    key, symbol = ("'symbol': 'VARCHAR', ", "symbol") if by_symbol else ("", "''")
    columns = f"{{'window_end': 'TIMESTAMP', {key}'value': 'DOUBLE', 'n': 'BIGINT'}}"
    return read_answers(
        f"SELECT parse_filename(parse_dirpath(filename)) AS query, epoch_us(window_end) AS end_us, "
        f"{symbol} AS symbol, value, n "
        f"FROM read_csv('{folder}/*/part-*', header = false, filename = true, columns = {columns})"
    )


def first_lines(text: str) -> str:
    """Keep what says why: Java's causes, not its calls."""
    said = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    causes = [line for line in said if line.startswith("Caused by:")]
    return (causes or said or ["no reason was given"])[-1][:300]


def _files(folder: Path) -> str:
    return f"('connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'csv', 'csv.null-literal' = '')"
