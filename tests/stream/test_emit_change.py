"""With emit = 'change' a query says what differs from the last answer of its group, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError, Unsupported
from penstock.kernel.emit_changes import EmitChanges
from penstock.sinks.memory import MemorySink
from penstock.store.answers import MemoryAnswerLog
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = "SELECT k, count(*) AS n, max(x) AS x FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k"
HIDDEN = "SELECT count(*) > 2 AS busy FROM s [ROWS 6 SLIDE 3] GROUP BY k"


def differing(answers: list[tuple[Any, ...]], groups: list[Any]) -> list[tuple[Any, ...]]:
    last: dict[Any, str] = {}
    found = []
    for group, (end, *values) in zip(groups, answers, strict=True):
        if last.get(group) != repr(values):
            found.append((end, *values))
        last[group] = repr(values)
    return found


def test_only_answers_that_differ_are_said_also_after_restarts(spark: SparkSession, tmp_path: Path) -> None:
    draw, sink = random.Random(2), MemorySink()
    rows = [
        {"ts": t / 2, "k": draw.choice(["a", "b", None]), "x": draw.choice([1.0, float("nan"), None])}
        for t in range(80)
        if not 20 < t < 40  # a silence in which groups fall away
    ]
    for batch in (rows[:15], rows[15:35], rows[35:]):
        with TestBed(spark, state=tmp_path, sinks=[sink]) as bed:
            bed.stream("s", "ts TIMESTAMP, k STRING, x DOUBLE")
            bed.query("all", COUNTS)
            bed.query("change", COUNTS + " WITH (emit = 'change')")
            bed.query("hidden", HIDDEN + " WITH (emit = 'change')")
            bed.query("shown", HIDDEN.replace("SELECT", "SELECT k,"))
            bed.feed("s", batch)
    with TestBed(spark, state=tmp_path) as bed:
        bed.flush()
        every, said = bed.timeline("all"), bed.timeline("change")
        assert repr(said) == repr(differing(every, [one[1] for one in every]))
        assert 0 < len(said) < len(every)
        shown = bed.timeline("shown")
        kept = differing([(end, busy) for end, _, busy in shown], [k for _, k, _ in shown])
        assert bed.timeline("hidden") == kept
        bed.engine.execute("CREATE STREAM changes AS " + COUNTS + " WITH (emit = 'change')")


def test_a_subtotal_is_not_the_group_whose_key_is_null(spark: SparkSession, tmp_path: Path) -> None:
    """Both have the keys (a, NULL), in one window and over time; each is compared with what it said itself."""
    rows = [(1, "a", 1), (1, "a", None), (3, "a", None), (5, "a", 2), (5, "a", None), (7, "a", 2), (9, "a", 2)]
    rolled = "SELECT k, j, grouping_id() AS level, count(*) AS n FROM s [RANGE 2 s SLIDE 2 s] GROUP BY ROLLUP (k, j)"
    for batch in (rows[:3], rows[3:]):
        with TestBed(spark, state=tmp_path) as bed:
            bed.stream("s", "ts TIMESTAMP, k STRING, j INT")
            bed.query("all", rolled)
            bed.query("change", rolled + " WITH (emit = 'change')")
            bed.feed("s", batch)
    with TestBed(spark, state=tmp_path) as bed:
        every = bed.timeline("all")
        assert sorted(bed.timeline("change"), key=repr) == sorted(differing(every, [r[1:4] for r in every]), key=repr)


@pytest.mark.parametrize("option", ["late = 'revise', revise_for = '1 s'", "keep = '1 d'"])
def test_what_cannot_be_said_only_when_it_changes_is_refused(spark: SparkSession, option: str) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, x DOUBLE")
        with pytest.raises(PenstockError, match="option emit = 'change' beside option"):
            bed.query("q", f"{COUNTS} WITH (emit = 'change', {option})")
        bed.query("q", f"{COUNTS} WITH (emit = 'change')")
        with pytest.raises(Unsupported, match="emits only changes"):
            bed.engine.backfill(["q"])


def answers(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    ends, keys, values = zip(*rows, strict=True)
    columns = {"#definition": [1] * len(rows), "window_end": ends, "x": values, "#k0": keys}
    return pa.table({**columns, "window_end": pa.array(ends, pa.timestamp("us", "UTC"))})


def test_nan_is_nan_and_a_group_that_is_back_is_compared_with_what_it_last_said() -> None:
    said, nan = EmitChanges(), float("nan")
    [first] = said.changed([answers((1, "a", nan), (1, None, 0.0), (2, "a", nan), (2, None, -0.0))], [1])
    assert first["window_end"].cast("int64").to_pylist() == [1, 1]
    assert said.changed([answers((3, None, 0.0))], [1]) == []  # "a" falls away
    assert said.changed([answers((4, "a", nan))], [1]) == []
    [other] = said.changed([answers((5, "a", None), (5, None, 0.0))], [1])
    assert other.num_rows == 1
    assert said.changed([answers((6, "a", None))], []) != []  # nobody asked
    said.restore([1], MemoryAnswerLog())
