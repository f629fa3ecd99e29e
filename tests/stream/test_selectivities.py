"""The part of its windows that a query answers is measured, and policies that rank by rate look at it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.cli.status_text import queries_text
from penstock.control.metrics import metrics_of
from penstock.control.status import status_of
from penstock.stream.selectivities import LEAST, NEW, Selectivities
from tests.stream.made import MadeStream, definition, row

WINDOW = "[RANGE 10 s SLIDE 10 s]"
QUERIES = {
    "always": f"SELECT count(*) AS n FROM s {WINDOW}",
    "groups": f"SELECT k, sum(v) AS v FROM s {WINDOW} GROUP BY k",
    "seldom": f"SELECT max(v) AS high FROM s {WINDOW} HAVING max(v) > 7",
    "again": f"SELECT max(v) AS high FROM s {WINDOW} HAVING max(v) > 8",
    "some": f"SELECT k, max(v) AS high FROM s {WINDOW} GROUP BY k HAVING max(v) > 4",
    "second": f"SELECT k, max(v) AS high FROM s {WINDOW} GROUP BY k ORDER BY k LIMIT 1 OFFSET 1",
    "change": f"SELECT max(v) AS high FROM s {WINDOW} WITH (emit = 'change')",
}


def made(folder: Path, queries: dict[str, str]) -> MadeStream:
    folder.mkdir()
    found = MadeStream(folder)
    for name, text in queries.items():
        found.create(name, text)
    found.runner.let_answers_lag()
    return found


def answer_all(stream: MadeStream) -> None:
    while stream.pipeline.committer.unanswered:
        stream.pipeline.answer_next(list(stream.pipeline.committer.unanswered.items))


def told(stream: MadeStream, name: str) -> float:
    figures = stream.pipeline.given.settings.figures
    found = metrics_of(stream.catalog, {"s": stream.runner}, figures, stream.clock(), "Hybrid")
    return found.query(name).selectivity


def test_the_part_of_its_windows_that_a_query_answers_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows are answered one to three at a time; each counts a sixteenth against those before it."""
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", float("inf"))  # what waits is answered in one go
    draw, stream, expected = random.Random(7), made(tmp_path / "made", QUERIES), dict.fromkeys(QUERIES, 1.0)
    stream.feed(row(1))
    first = 1
    for _ in range(40):
        many = draw.randint(1, 3)
        rows = [row(10.0 * (first + n) + 1, draw.randrange(10), draw.choice("ab")) for n in range(many) for _ in "123"]
        stream.feed(*rows)
        answer_all(stream)
        for name in QUERIES:
            ends = {end for end, *_ in stream.timeline(name)}
            said = sum(10.0 * (first + n) in ends for n in range(many))
            expected[name] = said / many + (expected[name] - said / many) * (1 - NEW) ** many
        first += many
    assert {name: told(stream, name) for name in QUERIES} == pytest.approx(expected)
    assert expected["always"] == expected["groups"] == 1.0
    assert all(0.05 < expected[name] < 0.98 for name in ("seldom", "some", "second", "change"))
    state = status_of(stream.catalog, {"s": stream.runner}, stream.clock(), running=True)
    assert f"{expected['seldom']:.0%} of its windows have something to say" in queries_text(state)


def test_by_rate_what_seldom_says_something_comes_after_what_costs_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # all that waits is put in order
    stream = made(tmp_path / "made", {name: QUERIES[name] for name in ("seldom", "again", "always")})
    stream.policy.change("HR")
    order, unanswered = stream.pipeline.committer.order, stream.pipeline.committer.unanswered
    monkeypatch.setattr(order.costs, "note", lambda spent: None)  # all are guessed to cost the same
    stream.feed(row(1), row(11))
    for name, part in (("seldom", 0.3), ("again", 0.6)):
        number = stream.catalog.query(name).id
        order.selectivities.learn({number: 1_000_000}, {})
        assert order.selectivities.of(number) == LEAST
        order.selectivities.learn({number: 1_000_000}, {number: round(part * 1_000_000)})
    while unanswered:
        unanswered.take()
    stream.feed(row(21))
    chosen = [unanswered.take()[0].definition.name for _ in range(3)]
    assert chosen == ["always", "again", "seldom"]


def test_windows_of_rows_which_no_policy_puts_in_order_are_not_measured() -> None:
    selectivities = Selectivities()
    for number, window in enumerate((WINDOW, "[ROWS 5 SLIDE 5]")):
        selectivities.watch(definition(f"SELECT max(v) AS high FROM s {window} HAVING max(v) > 7", number))
    assert selectivities.watched == {0}


def test_a_query_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    stream = made(tmp_path / "made", {name: QUERIES[name] for name in ("seldom", "always")})
    stream.feed(row(1), row(11))
    answer_all(stream)
    assert len(stream.pipeline.committer.order.selectivities.measured()) == 1
    stream.drop("seldom")
    stream.feed(row(21))
    assert stream.pipeline.committer.order.selectivities.measured() == {}
    assert stream.pipeline.committer.order.selectivities.watched == set()
