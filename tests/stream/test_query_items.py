"""Windows that are merged together are chosen together, as long as none of them is more urgent than the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.stream import query_items
from penstock.stream.evaluation_order import EvaluationItem
from penstock.stream.unanswered import UnansweredWindows
from tests.stream.made import MadeStream, row

WHERE = ("v > 3", "v <= 3", "k = 'a'", "j = 1")  # a column of one bundle each, and one more without a condition


def counting(where: str, *options: str, grouped: str = "") -> str:
    asked = f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] WHERE {where}{grouped}"
    return f"{asked} WITH ({', '.join(options)})" if options else asked


def waiting(folder: Path, queries: dict[str, str], batches: int = 1) -> MadeStream:
    """Let each batch make one window of every query final, of which none is answered."""
    folder.mkdir(exist_ok=True)
    made = MadeStream(folder)
    for name, text in queries.items():
        made.create(name, text)
    made.runner.let_answers_lag()
    for number in range(batches + 1):
        made.feed(row(5.0 * number + 1, number, "ab"[number % 2], 1))
    return made


def items_of(made: MadeStream) -> list[list[str]]:
    """Name the queries of each item."""
    items = made.pipeline.committer.unanswered.items.values()
    return [[one.definition.name for one in item.members] for item in items]


@pytest.fixture(autouse=True)
def nothing_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that waits be put in order, whatever it takes."""
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)


def test_queries_that_differ_in_their_conditions_only_are_one_item(tmp_path: Path) -> None:
    made = waiting(tmp_path / "made", {f"q{n}": counting(where) for n, where in enumerate(WHERE)})
    assert items_of(made) == [["q0", "q1", "q2", "q3"]]


def test_queries_with_keys_and_with_other_shapes_and_slides_are_items_of_their_own(tmp_path: Path) -> None:
    queries = {
        "a": counting("v > 3"),
        "b": counting("v <= 3", grouped=" GROUP BY k").replace("SELECT", "SELECT k,"),
        "c": counting("k = 'a'", grouped=" GROUP BY k").replace("SELECT", "SELECT k,"),
        "d": counting("j = 1").replace("count(*)", "count(*) + 1"),
        "e": counting("k = 'a'").replace("SLIDE 5", "SLIDE 2"),
        "f": counting("k = 'b' AND v > 0"),
    }
    assert items_of(waiting(tmp_path / "made", queries)) == [["a", "f"], ["b"], ["c"], ["d"], ["e"]]


@pytest.mark.parametrize("option", ["deadline = '1 s'", "priority = 5", "emit = 'fresh'"])
def test_a_query_that_is_more_urgent_than_the_others_of_its_bundle_is_an_item_of_its_own(
    tmp_path: Path, option: str
) -> None:
    asked = {"report": counting("v > 3"), "alert": counting("v <= 3", option), "other": counting("j = 1")}
    assert items_of(waiting(tmp_path / "made", asked)) == [["report", "other"], ["alert"]]


def test_an_alert_is_answered_before_the_reports_of_its_bundle(tmp_path: Path) -> None:
    asked = {f"report{n}": counting(where, "deadline = '9 s'") for n, where in enumerate(WHERE[:3])}
    made = waiting(tmp_path / "made", {**asked, "alert": counting("j = 1", "deadline = '10 ms'")})
    unanswered = made.pipeline.committer.unanswered
    assert [one.definition.name for one in unanswered.take()] == ["alert"]


@pytest.mark.parametrize("option", ["deadline = '10 ms'", "priority = 1000"])
def test_a_query_that_becomes_an_alert_goes_on_as_the_same_definition_and_comes_first(
    tmp_path: Path, option: str
) -> None:
    asked = {f"q{n}": counting(where, "deadline = '9 s'") for n, where in enumerate(WHERE)}
    made = waiting(tmp_path / "made", asked)
    before = made.catalog.query("q2")
    text = counting(WHERE[2], option if "deadline" in option else f"deadline = '9 s', {option}")
    made.alter("q2", text)
    for batch in (2, 3):  # also after a restart
        made.feed(row(5.0 * batch + 1))
        assert made.catalog.query("q2").id == before.id
        unanswered = made.pipeline.committer.unanswered
        assert [one.definition.name for one in unanswered.take()] == ["q2"]
        made.reopen()
        made.runner.let_answers_lag()
    assert [end for end, *_ in made.timeline("q2")] == [5.0, 10.0, 15.0]


def test_an_item_has_so_many_columns_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_items, "COLUMNS", 2)
    made = waiting(tmp_path / "made", {f"q{n}": counting(where) for n, where in enumerate(WHERE)})
    assert items_of(made) == [["q0", "q1"], ["q2", "q3"]]


def test_a_query_keeps_its_item_while_windows_of_it_wait_and_its_windows_stay_in_order(tmp_path: Path) -> None:
    made = waiting(tmp_path / "made", {f"q{n}": counting(where) for n, where in enumerate(WHERE)})
    (before,) = made.pipeline.committer.unanswered.items
    there = [made.catalog.query(f"q{n}") for n in range(len(WHERE))]
    waits = made.pipeline.progress.windows.unanswered
    made.pipeline.committer.order.forget({definition.id: definition for definition in there}, waits)
    made.feed(row(11.0))
    made.feed(row(16.0))
    assert list(made.pipeline.committer.unanswered.items) == [before]
    while made.pipeline.committer.unanswered:
        made.pipeline.answer_next(list(made.pipeline.committer.unanswered.items))
    ends = [end for end, *_ in made.timeline("q0")]
    assert ends == sorted(ends)
    assert len(ends) == 3


def test_the_first_unanswered_end_of_each_query_is_known_whatever_is_taken(tmp_path: Path) -> None:
    queries = {f"q{n}": counting(where) for n, where in enumerate(WHERE)}
    queries |= {f"k{n}": counting(where, grouped=" GROUP BY k") for n, where in enumerate(WHERE)}
    made = waiting(tmp_path / "made", queries, 4)
    unanswered = made.pipeline.committer.unanswered
    while unanswered:
        assert made.pipeline.progress.windows.unanswered == firsts_of(unanswered)
        made.pipeline.answer_next(list(unanswered.items)[-1:])
    assert made.pipeline.progress.windows.unanswered == {}


def firsts_of(unanswered: UnansweredWindows) -> dict[int, int]:
    ends: dict[int, list[int]] = {}
    for one in unanswered.pending():
        ends.setdefault(one.definition.id, []).append(one.ends.first_us)
    return {number: min(some) for number, some in ends.items()}


def test_what_is_quick_is_answered_in_one_go_and_no_item_is_described_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 1.0)
    heads: list[EvaluationItem] = []
    monkeypatch.setattr(EvaluationItem, "head", lambda self, now_us: heads.append(self))
    made = waiting(tmp_path / "made", {f"q{n}": counting(where) for n, where in enumerate(WHERE)})
    unanswered = made.pipeline.committer.unanswered
    assert list(unanswered.items) == [None]
    made.pipeline.answer_next([None])
    assert not unanswered
    assert heads == []
    assert [len(made.timeline(f"q{n}")) for n in range(len(WHERE))] == [1] * len(WHERE)


def test_an_item_of_many_queries_is_worth_as_much_as_all_of_them(tmp_path: Path) -> None:
    made = waiting(tmp_path / "made", {f"q{n}": counting(where) for n, where in enumerate(WHERE)}, 2)
    (item,) = made.pipeline.committer.unanswered.items.values()
    head = item.head(made.clock())
    assert (head.selectivity, head.pending) == (4.0, 2.0)
    assert head.cost == pytest.approx(item.seconds / 2)  # one window of each
    assert head.ideal == pytest.approx(head.cost / 4)  # what a window takes by itself
    assert item.head(made.clock(), 0.5).ideal == pytest.approx(0.5 + head.cost / 4)
