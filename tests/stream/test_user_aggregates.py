"""Users' aggregates: laws checked at the door, states that outlive restarts, errors that harm nobody else."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import BrokenLaw, CatalogError, EnvironmentProblem, LanguageError, PenstockError, Unsupported
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "ts TIMESTAMP, k STRING, x DOUBLE, y DOUBLE"
W = "[RANGE 6 s SLIDE 2 s]"
SAMPLES: Sequence[tuple[Any, ...]] = [(1.0,), (2.0,), (5.5,)]
Row = dict[str, Any]


class GeometricMean:
    """The mean of logarithms, raised again."""

    @staticmethod
    def lift(x: float) -> tuple[int, float]:
        return 1, math.log(x)

    @staticmethod
    def combine(a: tuple[int, float], b: tuple[int, float]) -> tuple[int, float]:
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def lower(state: tuple[int, float]) -> float | None:
        return math.exp(state[1] / state[0]) if state[0] else None

    @staticmethod
    def identity() -> tuple[int, float]:
        return 0, 0.0

    @staticmethod
    def invert(a: tuple[int, float], b: tuple[int, float]) -> tuple[int, float]:
        return a[0] - b[0], a[1] - b[1]


class Weighted:
    """The mean of x weighed by y; a state is a class of the user's own."""

    @staticmethod
    def lift(x: float | None, y: float | None) -> dict[str, float]:
        return {"sum": (x or 0.0) * (y or 0.0), "weight": y or 0.0}

    @staticmethod
    def combine(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
        return {name: a[name] + b[name] for name in a}

    @staticmethod
    def lower(state: dict[str, float]) -> float | None:
        return state["sum"] / state["weight"] if state["weight"] else None


def rows_of(seed: int, count: int = 80) -> list[Row]:
    rng = random.Random(seed)
    return [
        {"ts": n / 4, "k": rng.choice("ab"), "x": rng.choice([None, rng.uniform(0.5, 9)]), "y": float(rng.randrange(4))}
        for n in range(count)
    ]


def geometric(rows: Sequence[Row]) -> float | None:
    held = [math.log(row["x"]) for row in rows if row["x"] is not None]
    return math.exp(sum(held) / len(held)) if held else None


def weighted(rows: Sequence[Row]) -> float | None:
    weight = sum(row["y"] for row in rows)
    return sum((row["x"] or 0.0) * row["y"] for row in rows) / weight if weight else None


def window(bed: TestBed, rows: Sequence[Row], answer: Row) -> list[Row]:
    start, end = ((answer[name] - bed.epoch).total_seconds() for name in ("window_start", "window_end"))
    return [row for row in rows if start <= row["ts"] < end and answer.get("k", row["k"]) == row["k"]]


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_answers_are_the_naive_ones_across_cuts_and_restarts(spark: SparkSession, tmp_path: Path, kernel: Any) -> None:
    rows = rows_of(seed=1)
    for number, (start, end) in enumerate([(0, 7), (7, 33), (33, 80)]):
        with TestBed(spark, kernel=kernel, state=tmp_path / "state") as bed:
            if number == 0:
                bed.stream("t", COLUMNS)
                bed.engine.create_aggregate("geo", GeometricMean, samples=SAMPLES)
                bed.engine.create_aggregate("weighted", Weighted, samples=[(1.0, 2.0), (None, 1.0), (3.0, 0.0)])
                bed.query("one", f"SELECT geo(x) AS v FROM t {W}")
                bed.query("by", f"SELECT k, weighted(x, y) AS v FROM t {W} GROUP BY k HAVING geo(x) > 1")
                bed.query("few", f"SELECT geo(x) FILTER (WHERE k = 'a') AS v, count(*) AS n FROM t {W}")
            bed.engine.create_aggregate("geo", GeometricMean, samples=SAMPLES)  # the same again changes nothing
            bed.feed("t", rows[start:end])
            if end == len(rows):
                bed.flush()
                for name, twin in (("one", geometric), ("by", weighted), ("few", geometric)):
                    answers = bed.results(name).to_pylist()
                    assert len(answers) >= 10
                    for answer in answers:
                        held = window(bed, rows, answer)
                        held = [row for row in held if row["k"] == "a"] if name == "few" else held
                        expected = twin(held)
                        assert answer["v"] == (None if expected is None else pytest.approx(expected, rel=1e-9))


def test_late_rows_revise_and_questions_are_answered(spark: SparkSession) -> None:
    rows = rows_of(seed=2, count=40)
    late, early = rows[12:20:3], [row for row in rows if row not in rows[12:20:3]]
    with TestBed(spark) as bed:
        bed.stream("t", COLUMNS)
        bed.engine.create_aggregate("geo", GeometricMean, samples=SAMPLES)
        bed.query("q", f"SELECT geo(x) AS v FROM t {W} WITH (late = 'revise', revise_for = '1 min')")
        bed.feed("t", early)
        bed.feed("t", late)
        for answer in [
            *bed.results("q").to_pylist(),
            *bed.engine.ask("SELECT geo(x) AS v FROM t [RANGE 4 s]").to_pylist(),
        ]:
            expected = geometric(window(bed, rows, answer))
            assert answer["v"] == (None if expected is None else pytest.approx(expected, rel=1e-9))


def test_an_empty_window_answers_the_identity_or_null(spark: SparkSession) -> None:
    class Total:
        lift = staticmethod(lambda x: x)
        combine = staticmethod(lambda a, b: a + b)
        lower = staticmethod(lambda s: s)

    class TotalOfNone(Total):
        identity = staticmethod(lambda: 0.0)

    types: Any = {"parameters": "x double", "returns": "double", "samples": SAMPLES}
    with TestBed(spark) as bed:
        bed.stream("t", COLUMNS)
        bed.engine.create_aggregate("total", Total, **types)
        bed.engine.create_aggregate("total_of_none", TotalOfNone, **types)
        bed.query("q", "SELECT total(x) AS a, total_of_none(x) AS b FROM t [RANGE 1 s SLIDE 1 s]")
        bed.feed("t", [{"ts": 0, "k": "a", "x": 2.0, "y": 1.0}, {"ts": 2.5, "k": "a", "x": 3.0, "y": 1.0}])
        bed.flush()
        assert bed.results("q").select(["a", "b"]).to_pylist() == [
            {"a": 2.0, "b": 2.0},
            {"a": None, "b": 0.0},
            {"a": 3.0, "b": 3.0},
        ]


def test_code_that_fails_pauses_its_own_query_only(spark: SparkSession) -> None:
    class Picky(GeometricMean):
        @staticmethod
        def lower(state: tuple[int, float]) -> Any:
            return "many" if state[0] > 30 else 1.0

    class Leaving(GeometricMean):
        @staticmethod
        def lower(state: tuple[int, float]) -> Any:
            return sys.exit(7) if state[0] > 30 else 1.0

    with TestBed(spark) as bed:
        bed.stream("t", COLUMNS)
        bed.engine.create_aggregate("geo", GeometricMean, samples=SAMPLES)
        bed.engine.create_aggregate("picky", Picky, samples=SAMPLES, returns="double")
        bed.query("row", f"SELECT geo(x - 5) AS v FROM t {W}")
        bed.query("answer", "SELECT picky(y + 1) AS v FROM t [RANGE 9 s SLIDE 9 s]")
        bed.engine.create_aggregate("leaving", Leaving, samples=SAMPLES, returns="double")
        bed.query("exit", "SELECT leaving(y + 1) AS v FROM t [RANGE 9 s SLIDE 9 s]")
        bed.query("sound", f"SELECT geo(x) AS v FROM t {W}")
        bed.feed("t", rows_of(seed=3))
        bed.flush()
        assert "geo(): failed on a row: ValueError" in (bed.paused("row") or "")
        assert "picky(): lower returned str 'many', which is not of type double" in (bed.paused("answer") or "")
        assert "leaving(): lower failed: SystemExit: 7" in (bed.paused("exit") or "")
        assert bed.paused("sound") is None
        assert bed.results("sound").num_rows >= 10


# -- laws --------------------------------------------------------------------------------------------------------


def broken(**parts: Any) -> type:
    return type("Broken", (GeometricMean,), {name: staticmethod(part) for name, part in parts.items()})


BROKEN = {
    "combine is not commutative": broken(combine=lambda a, b: (a[0] + b[0], a[1])),
    "combine is not associative": broken(combine=lambda a, b: (1, (a[1] + b[1]) / 2), lower=lambda s: s[1]),
    "identity changes a state": broken(identity=lambda: (1, 0.0)),
    "invert does not undo combine": broken(invert=lambda a, b: a),
    "lift failed: ZeroDivisionError": broken(lift=lambda x: (1, 1 / (x - 1))),
    "combine failed: TypeError": broken(combine=lambda a, b: a + None),
    "lower failed: TypeError": broken(lower=lambda s: s["sum"]),
    "lower returned 'x', which does not have the declared type": broken(lower=lambda s: "x"),
    "combine changes a state that it is given": broken(
        lift=lambda x: [x], combine=lambda a, b: a.extend(b) or a, lower=lambda s: float(len(s)), identity=list
    ),
    "a state cannot be stored": broken(lift=lambda x: lambda: x),
}


@pytest.mark.parametrize("law", BROKEN)
def test_an_aggregate_that_breaks_a_law_is_refused_with_an_example(spark: SparkSession, law: str) -> None:
    with TestBed(spark) as bed:
        with pytest.raises(BrokenLaw) as raised:
            bed.engine.create_aggregate("b", BROKEN[law], samples=SAMPLES, parameters="x double", returns="double")
        assert f'aggregate "b": {law}' in raised.value.what
        assert raised.value.detail
        assert raised.value.hint
        assert not bed.engine.catalog.has("function", "b")


def test_what_is_no_aggregate_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        lift = staticmethod(lambda x: x)

    refused: list[tuple[Any, dict[str, Any], type[PenstockError], str]] = [
        (Half, {}, LanguageError, 'aggregate "g" has no combine and no lower'),
        (GeometricMean, {"samples": []}, BrokenLaw, 'aggregate "g" has no samples'),
        (GeometricMean, {"parameters": "x double, y double"}, LanguageError, "cannot be called with 2 arguments"),
        (GeometricMean, {"returns": "array<double>"}, Unsupported, "cannot return array<double>"),
        (broken(combine=lambda a: a), {}, LanguageError, 'function "g.combine" cannot be called with 2 arguments'),
        (broken(lower=3), {}, LanguageError, "cannot be called"),
    ]
    with TestBed(spark) as bed:
        bed.stream("t", COLUMNS)
        for given, more, kind, what in refused:
            with pytest.raises(kind, match=what.replace("(", r"\(")):
                bed.engine.create_aggregate("g", given, **{"samples": SAMPLES, **more})
        with pytest.raises(LanguageError, match="built-in"):
            bed.engine.create_aggregate("median", GeometricMean, samples=SAMPLES)
        monkeypatch.setitem(sys.modules, "hypothesis", None)
        with pytest.raises(EnvironmentProblem, match="hypothesis is not installed"):
            bed.engine.create_aggregate("g", GeometricMean, samples=SAMPLES)


def test_an_aggregate_is_called_where_aggregates_stand_and_stays_while_it_is_called(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("t", COLUMNS)
        bed.engine.create_aggregate("geo", GeometricMean, samples=SAMPLES)
        for text, what in (
            (f"SELECT count(*) AS n FROM t {W} WHERE geo(x) > 1", "aggregates are not allowed in WHERE"),
            (f"SELECT sum(geo(x)) AS n FROM t {W}", "an aggregate inside an aggregate is not allowed"),
            (f"SELECT geo(x, y) AS n FROM t {W}", r"geo\(\) takes 1 argument, found 2"),
            (f"SELECT geo(DISTINCT x) AS n FROM t {W}", r"geo\(\) takes values, not DISTINCT"),
        ):
            with pytest.raises(LanguageError, match=what):
                bed.query("q", text)
        bed.query("q", f"SELECT geo(x) AS v FROM t {W}")
        with pytest.raises(CatalogError):
            bed.engine.drop_function("geo")
        bed.engine.drop_query("q")
        bed.engine.drop_function("geo")


def test_a_marked_class_is_an_aggregate_of_a_project() -> None:
    from penstock.language.functions.python_aggregates import aggregate_wish_of

    marked = penstock.aggregate(samples=SAMPLES)(type("geo", (GeometricMean,), {}))
    wish = aggregate_wish_of(marked)
    assert wish is not None
    assert wish.samples == SAMPLES
