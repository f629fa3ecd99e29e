"""What the trials run on: files of rows, mixed questions, and the answers that a model in plain Python gives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine import Engine
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from tests.always.delivered import delivered, lines_in, tables_in
from tests.always.extremes.trial import Trial
from tests.always.judged import SECOND, lines_of
from tests.always.model import Model
from tests.always.questions import Question, Row
from tests.always.victim import INTERPRETED, LATENESS_US, QUESTIONS, STREAM, rows_of, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
WHERES = (None, "v > 3", "v <= 3", "k = 'a'", "k IS NULL OR v < 5", "j = 1")
KEYS: tuple[tuple[str, ...], ...] = ((), ("k",), ("j",), ("k", "j"))
WINDOWS = ((10, 5), (20, 10), (13, 3), (30, 15), (8, 8), (60, 20), (45, 9))


def session(memory: str = "1g", **settings: str) -> SparkSession:
    """Start Spark for short plans."""
    from penstock.spark.session.embedded import embedded

    return embedded(cores=2, memory=memory, settings={**INTERPRETED, **settings})


def mixed(number: int) -> dict[str, Question]:
    """List so many questions that differ in window, condition, groups and aggregates."""
    found = {}
    for place in range(number):
        range_s, slide_s = WINDOWS[place % len(WINDOWS)]
        keys, where = KEYS[place % len(KEYS)], WHERES[place // 2 % len(WHERES)]
        asked = (("count(*)", "sum(v)"), ("max(v)",), ("min(v)", "count(v)"))[place % 3]
        found[f"q{place}"] = Question(range_s * SECOND, slide_s * SECOND, 0, keys, asked, where)
    return found


def write_files(folder: Path, numbers: Iterable[int]) -> None:
    """Write files of about twelve rows, some of them late, invalid or twice, four seconds apart."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        write_file(folder, number)


def sinks_in(folder: Path) -> list[Sink]:
    return [JsonLinesSink(folder / "lines"), ParquetSink(folder / "tables", roll_seconds=1.0)]


def prepare(engine: Engine, files: Path, questions: Mapping[str, Question] = QUESTIONS) -> None:
    """Declare the stream of such files and the queries over it, if they are not there yet."""
    if "s" not in engine.catalog.stream_names():
        engine.execute(STREAM.format(path=files, dedup=", dedup = 'id'"))
    known = {d.name for d in engine.catalog.definitions("s")}
    script = [f"CREATE QUERY `{name}` AS {q.sql()}" for name, q in questions.items() if name not in known]
    if script:
        engine.execute(";\n".join(script))


def expected(
    files: int,
    questions: Mapping[str, Question] = QUESTIONS,
    *,
    flush: bool = True,
    ends: Collection[int] | None = None,
) -> Model:
    """Work out what should be answered after so many files, each a batch of its own unless told where batches end."""
    model = Model(LATENESS_US, 600 * SECOND, 0, ("id",))
    for name, question in questions.items():
        model.create(name, question, None)
    rows: list[Row] = []
    for number in range(files):
        rows += rows_of(number)
        if ends is None or number in ends:
            model.batch(rows, 1 << 60)
            rows = []
    if flush:
        model.flush()
    return model


def wrong(engine: Engine, model: Model, names: Sequence[str] = ()) -> str:
    """Say in which query the engine's answers differ from the model's; nothing if they are alike."""
    for name in names or list(model.queries):
        standing = model.queries[name]
        question = standing.question
        found: list[Any] = lines_of(engine.results(name), question.names)
        wanted = [(e.end - question.range_us, e.end, *e.group, *e.values) for e in standing.current()]
        if found != wanted:
            odd = [(a, b) for a, b in zip(found, wanted, strict=False) if a != b][:2]
            return f"{name}: {len(found)} answers, {len(wanted)} expected; first differences {odd}"
    return ""


def batch_ends(checkpoint: Path) -> set[int]:
    """List the files that batches end with, of those that Spark still remembers.

    A Spark that is killed after it noted a file and before it noted the batch gives that file out with the next one.
    """
    noted = [path.read_text().splitlines()[-1] for path in checkpoint.glob("offsets/[0-9]*")]
    return {int(json.loads(line)["logOffset"]) for line in noted}


def wrongly_delivered(folder: Path, model: Model, left_out: str = "") -> str:
    """Say how what the sinks hold differs from the model's answers, each counted; nothing if they are alike."""
    wanted = delivered(model)
    for name, found in {"lines": lines_in(folder / "lines"), "tables": tables_in(folder / "tables")}.items():
        held = Counter({key: number for key, number in found.items() if ("query_name", left_out) not in key})
        if more := held - wanted:
            return f"{name}: {more.total()} twice or never given: {list(more.items())[:2]}"
        if less := wanted - held:
            return f"{name}: {less.total()} lost: {list(less.items())[:2]}"
    return ""


def judge(trial: Trial, text: str, difference: str) -> bool:
    """Claim that there is no difference."""
    return trial.claim(text, not difference, difference)
