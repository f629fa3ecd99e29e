"""The benchmark of predicates, so small that its times mean nothing: it runs, and all sides answer the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench._measure import Progress, machine, write_json
from bench._plain import Window
from bench._predicates.case import BITS, words
from bench._predicates.counting import count
from bench._predicates.market import RATE, Exchange, in_round_lots, write_exchange
from bench._predicates.queries import TUMBLING, Drawing, Kind, Predicate
from bench._predicates.running import differences
from bench._predicates.thousands import Crowd
from bench._results.predicates import predicates
from bench.predicates import Workload, measure, sized
from penstock.share.conditions.fragments import count_fragments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Workload(
    rows=4_000,
    files=1,
    repetitions=1,
    same_window=(4, 9),
    regular=(4,),
    low_sharing=(4,),
    at=4,
    most=9,
    compared=2,
    default_jvm=False,
    warm=False,
    crowd=Crowd(windows=2, predicates=3, batch_rows=200, warm_batches=1, additions=1, compared=3),
)


@pytest.fixture(scope="module")
def written(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("bench") / "predicates.json"
    write_json(path, machine(), measure(interpreted, TINY, Progress()))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def exchange(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Exchange:
    return write_exchange(interpreted, tmp_path_factory.mktemp("exchange"), 3_000, 2, seed=2, rate=1.0)


@pytest.mark.soak
def test_every_target_has_a_name_a_value_and_a_verdict(written: dict[str, Any]) -> None:
    assert list(written) == ["machine", "measurements", "targets"]
    assert [target["name"] for target in written["targets"]] == [
        "answers equal one CASE per query's and the oracle's",
        "3 of 6 queries equal the oracle",
        "one query more, ms at the next batch",
        "B 4 / no predicates 4",
        "CASE 4, compiled / B 4",
        "C regular 4, unshared / C regular 4",
        "C low 4, unshared / C low 4",
        "CASE 9, compiled / B 9",
        "B 9 / B 4",
    ]


@pytest.mark.soak
def test_all_sides_answer_the_same(written: dict[str, Any]) -> None:
    compared = written["measurements"]["answers_compared"]
    assert list(compared) == ["B 4", "C regular 4", "C low 4"]
    assert all(found["answers"] > 20 and found["differing"] == 0 for found in compared.values())


@pytest.mark.soak
def test_every_side_is_timed(written: dict[str, Any]) -> None:
    assert list(written["measurements"]["times"]) == [
        "bare limit",
        "no predicates 4",
        "B 4",
        "B 9",
        "C regular 4",
        "C low 4",
        "B 4, round lots",
        "B 4, unshared",
        "C regular 4, unshared",
        "C low 4, unshared",
        "CASE 4, compiled",
        "CASE 9, compiled",
    ]


@pytest.mark.soak
def test_the_engine_folds_as_many_rows_as_the_paper_says(written: dict[str, Any]) -> None:
    times, counts = written["measurements"]["times"], written["measurements"]["counts"]
    for name in ("B 4", "B 9", "C regular 4", "C low 4"):
        assert times[name]["answers"] == counts[name]["windows"]
        assert times[name]["work"]["partial_operations"] == counts[name]["shared"]["partial"]
        assert times[name]["work"]["partials"] >= counts[name]["fragments"]
        assert times[name]["work"]["bytes_to_driver"] > 0
    for kind in ("C regular 4", "C low 4"):
        assert times[f"{kind}, unshared"]["work"]["partial_operations"] == counts[kind]["unshared"]["partial"]


@pytest.mark.soak
def test_thousands_of_queries_equal_the_oracle_while_one_is_added(written: dict[str, Any]) -> None:
    found = written["measurements"]["thousands"]
    assert (found["queries"], found["queries_compared"], found["differing"]) == (6, 3, [])
    assert found["answers_compared"] > 3
    assert (found["batches"], len(found["batch_after_addition_seconds"])) == (TINY.crowd.batches, 1)


@pytest.mark.soak
def test_the_results_page_shows_ours_beside_the_published(written: dict[str, Any]) -> None:
    section = predicates(written)
    part = "\n".join([section.asked, *map(str, section.tables)])
    for text in ("| B 4 |", "figure 14", "116,101,112", "63,984,043", "| CASE 9, compiled |", "4,000 trades"):
        assert text in part
    assert [chart.name for chart in section.charts] == ["predicates", "predicates-sharing"]


def drawing(number: int = 5_000) -> Drawing:
    draw = np.random.default_rng(3)
    values = {"vol": np.floor(draw.exponential(900, number)) + 1, "vol * price": draw.exponential(9_000, number)}
    return Drawing({**values, "abs(price - cp) / cp": draw.uniform(0, 0.05, number)}, seed=1)


@pytest.mark.parametrize(("kind", "windows", "predicates"), [("B", 1, 256), ("C regular", 16, 16), ("C low", 256, 256)])
def test_query_sets_differ_where_the_paper_says_so(kind: Kind, windows: int, predicates: int) -> None:
    questions = drawing().questions(kind, 256)
    assert len({str(q) for q in questions}) == 256
    assert len({q.window for q in questions}) == windows
    assert len({str(q.predicate) for q in questions}) == predicates
    if kind != "B":
        assert all(600 <= q.window.range_s <= 900 and 300 <= q.window.slide_s <= 600 for q in questions)
    assert len({str(q).partition(" [")[0] for q in questions}) == 1


def test_predicates_are_drawn_alike_every_time_and_every_choice_as_often() -> None:
    found = drawing().predicates(3_000)
    assert found[:16] == drawing().predicates(16)
    for choices, number in (({p.index for p in found}, 3), ({p.attribute for p in found}, 3)):
        assert len(choices) == number
    for held in ([p.member for p in found], [p.sign == "<" for p in found], [p.attribute == "vol" for p in found]):
        share = sum(held) / len(found)
        assert 0.25 < share < 0.55


def test_a_member_and_a_value_conjunct_make_a_predicate() -> None:
    predicate = Predicate("r2000", False, "abs(price - cp) / cp", "<", "0.012000")
    assert str(predicate) == "NOT r2000 AND abs(price - cp) / cp < 0.012000"
    assert words([predicate] * (BITS + 1))[1] == f"CASE WHEN {predicate} THEN 1L ELSE 0L END"


def test_round_lots_are_few_and_half_of_the_trades_are_of_100_shares() -> None:
    volumes = in_round_lots(np.array([1, 100, 245, 246, 999, 1_001, 58_000, 1_000_000]))
    assert volumes.tolist() == [100, 100, 100, 300, 1_000, 2_000, 60_000, 1_000_000]


def test_smaller_indexes_are_parts_of_the_largest(exchange: Exchange) -> None:
    for trades in exchange.joined():
        members = trades.member
        assert not (members["r1000"] & members["r2000"]).any()
        assert ((members["r1000"] | members["r2000"]) == members["r3000"]).all()
        assert all(np.isfinite(values).all() for values in trades.attribute.values())


def test_counts_are_those_of_every_slice_s_fragments(exchange: Exchange) -> None:
    questions = Drawing(exchange.sample(200, 1), 1).questions("B", 9)
    counted = count(exchange, questions)
    trades = list(exchange.joined())
    slices = np.concatenate([t.second for t in trades]) // TUMBLING.slide_s
    taken = [np.concatenate([q.predicate.takes(t) for t in trades]) for q in questions if q.predicate is not None]
    signature = np.sum([bits.astype(np.int64) << place for place, bits in enumerate(taken)], axis=0)
    each = [
        count_fragments([signature[slices == s]], np.ones(int((slices == s).sum()), np.int64), [1] * 9)
        for s in np.unique(slices)
    ]
    assert counted.rows == sum(one.rows for one in each) == 3_000
    assert counted.rows_taken == 3_000 - sum(one.dropped for one in each)
    assert counted.fragments == sum(one.fragments - (one.dropped > 0) for one in each)
    assert (counted.unshared.partial, counted.unshared.final) == (0, sum(one.unshared for one in each))
    assert counted.shared.final == sum(one.final for one in each)


def test_merged_slices_are_counted_window_by_window(exchange: Exchange) -> None:
    question = Drawing(exchange.sample(200, 1), 1).questions("C low", 1)[0]
    counted = count(exchange, [question])
    assert counted.unshared.final == counted.shared.final - counted.fragments  # nobody else cuts its slices
    assert counted.windows == len(_ends(question.window, *exchange.seconds))


def _ends(window: Window, first: int, last: int) -> list[int]:
    return [end for end in range(0, last + 2_000, window.slide_s) if end > first and end - window.range_s <= last]


def test_differences_are_found() -> None:
    assert differences({1: (1.0, 2), 2: (None, 0)}, {1: (1.0 + 1e-12, 2), 2: (None, 0)}) == []
    assert len(differences({1: (1.0, 2), 2: (None, 0)}, {1: (1.0, 3), 3: (None, 0)})) == 3
    assert len(differences({1: (0.0, 0)}, {1: (None, 0)})) == 1


def test_a_quick_look_has_fewer_queries() -> None:
    assert sized(4_000_000, full=False) == Workload()
    assert max(sized(100_000, full=True).same_window) < max(Workload().same_window)
    assert pytest.approx(316.3, abs=0.1) == RATE
