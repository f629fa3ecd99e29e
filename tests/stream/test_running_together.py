"""Evaluations over one synopsis run together as Golab, Bijay and Özsu 2006 say, and answer what they answer alone."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.evaluate.finishing import Finished, FinishRequest
from penstock.store.answers import DEFINITION
from penstock.stream.desk import Desk
from penstock.testing import ManualClock
from tests.cases import cases
from tests.shell import PATIENCE_S
from tests.stream.made import SECOND, MadeStream, row


def opened(folder: Path, queries: dict[str, str], **how: Any) -> MadeStream:
    folder.mkdir()
    made = MadeStream(folder, **how)
    for name, text in queries.items():
        made.create(name, text)
    made.runner.let_answers_lag()
    return made


def ran(made: MadeStream) -> list[list[str]]:
    """List what was answered together, group after group."""
    found = []
    for _, tables in made.pipeline.answers.batches(-1):
        numbers = {number for table in tables for number in table[DEFINITION].to_pylist()}
        found.append(sorted(made.catalog.name_of(number) for number in numbers))
    return found


# -- the paper's examples, on the desk ---------------------------------------------------------------------------------


class Papers:
    """Periodic queries T0, T1, … over synopses, updated once a second; the desk runs when it is told to.

    All ask to be answered a second after they are due, so that the earliest deadline is the earliest that was due.
    """

    def __init__(self, folder: Path, periods: list[int], synopses: list[int], technique: str) -> None:
        self.clock, by = ManualClock("9999-01-01"), ["", " GROUP BY k"]
        queries = {
            f"T{i}": f"SELECT {'k, ' * synopsis}approx_count_distinct(v) AS n FROM s [RANGE 30 s SLIDE {period} s]"
            f"{by[synopsis]} WITH (deadline = '1 s')"
            for i, (period, synopsis) in enumerate(zip(periods, synopses, strict=True))
        }
        self.made = opened(folder, queries, clock=self.clock, synchronize=technique)
        self.made.feed(row(0))
        self.updates = 0

    def update(self) -> None:
        """Let a second pass, in the stream and by the clock."""
        self.updates += 1
        self.clock.advance("1 s")
        self.made.feed(row(self.updates))

    def run(self) -> None:
        """Let the desk answer until nothing waits."""
        desk, until = Desk(), time.monotonic() + PATIENCE_S
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # one choice after the other
            desk.join(self.made.pipeline)
            desk.wake()
            while self.made.pipeline.committer.unanswered and time.monotonic() < until:
                time.sleep(0.002)
            desk.leave(self.made.pipeline)


def trace(
    folder: Path, periods: list[int], technique: str, runs: list[int], synopses: list[int] | None = None
) -> list[list[str]]:
    """Update so many times, the desk running after those updates that are told; list what ran together."""
    papers = Papers(folder / "made", periods, synopses or [0] * len(periods), technique)
    for update in range(1, max(runs) + 1):
        papers.update()
        if update in runs:
            papers.run()
    return ran(papers.made)


def test_a_query_is_due_when_its_synopsis_was_updated_as_often_as_its_slide_says(tmp_path: Path) -> None:
    """Golab et al. 2006, Figure 3: a slide of two updates.

    ::

        update   t      t+s    t+2s        t+3s
        d        2      1      0 run → 2
    """
    papers = Papers(tmp_path / "made", [2], [0], "No-S")
    papers.update()
    assert not papers.made.pipeline.committer.unanswered
    papers.update()
    assert papers.made.pipeline.committer.unanswered
    papers.run()
    assert ran(papers.made) == [["T0"]]
    assert papers.made.timeline("T0") == [(2.0, 1)]


def test_algorithm_1_runs_one_task_at_a_time_the_earliest_deadline_first(tmp_path: Path) -> None:
    assert trace(tmp_path, [2, 3, 5], "No-S", [2, 3, 4, 5]) == [["T0"], ["T1"], ["T0"], ["T2"]]


def test_algorithm_2_joins_tasks_of_a_group_with_the_same_deadline(tmp_path: Path) -> None:
    assert trace(tmp_path, [3, 3, 5], "CS", [3, 5]) == [["T0", "T1"], ["T2"]]


def test_algorithm_2_leaves_tasks_of_another_group_alone(tmp_path: Path) -> None:
    assert trace(tmp_path, [2, 3, 2], "CS", [3], [0, 0, 1]) == [["T0"], ["T2"], ["T1"]]


def test_late_sharing_joins_all_that_are_late(tmp_path: Path) -> None:
    assert trace(tmp_path, [2, 3, 5], "H-LS", [4])[0] == ["T0", "T1"]  # after four updates: -2, -1, 1


def test_late_sharing_leaves_alone_what_is_due_now(tmp_path: Path) -> None:
    assert trace(tmp_path, [2, 3, 5], "H-LS", [3]) == [["T0"], ["T1"]]  # after three updates: -1, 0, 2


def test_algorithm_3_also_joins_what_is_due_now(tmp_path: Path) -> None:
    assert trace(tmp_path, [2, 3, 5], "H-LP", [3]) == [["T0", "T1"]]


def test_algorithm_3_runs_all_three_of_figure_4_d_together(tmp_path: Path) -> None:
    assert trace(tmp_path, [4, 4, 5], "H-LP", [5]) == [["T0", "T1", "T2"]]  # two late, one pending


def test_with_nothing_late_only_the_same_deadline_counts(tmp_path: Path) -> None:
    assert trace(tmp_path, [2, 3, 5], "H-LP", [2]) == [["T0"]]


def test_without_sharing_tasks_that_are_due_together_run_apart(tmp_path: Path) -> None:
    assert trace(tmp_path, [3, 3, 6], "No-S", [3, 6]) == [["T0", "T1"], ["T0", "T1"], ["T2"]]  # a slide is one task


# -- answers -----------------------------------------------------------------------------------------------------------

Rows = list[dict[str, Any]]
KINDS: dict[str, tuple[str, Callable[[Rows], Any]]] = {  # what is asked, its name, and what plain rows say
    "approx_count_distinct(v)": ("n", lambda rows: len({r["v"] for r in rows})),
    "count(DISTINCT v)": ("n", lambda rows: len({r["v"] for r in rows})),
    "min_by(v, j)": ("x", lambda rows: min((r["j"], r["v"]) for r in rows)[1] if rows else None),
    "max(v)": ("x", lambda rows: max((r["v"] for r in rows), default=None)),
    "sum(v)": ("x", lambda rows: sum(r["v"] for r in rows) if rows else None),
    "percentile(v, 0.5)": ("p", lambda rows: statistics.median(r["v"] for r in rows) if rows else None),
    "percentile(v, 1.0)": ("p", lambda rows: max((r["v"] for r in rows), default=None)),
}


@dataclass(frozen=True)
class Asked:
    """A query, and what it is over."""

    kind: str
    reach: int
    slide: int
    keyed: bool
    fresh: bool

    @property
    def text(self) -> str:
        by, fresh = " GROUP BY k" if self.keyed else "", " WITH (emit = 'fresh')" if self.fresh else ""
        asked = f"{'k, ' if self.keyed else ''}{self.kind} AS {KINDS[self.kind][0]}"
        return f"SELECT {asked} FROM s [RANGE {self.reach} s SLIDE {self.slide} s]{by}{fresh}"

    def answer(self, end: float, k: str | None, accepted: list[tuple[float, dict[str, Any]]]) -> Any:
        """Answer a window from plain rows, each with the watermark that it met: final windows had no room for it."""
        inside = [
            one
            for watermark, one in accepted
            if end - self.reach <= one["ts"] / SECOND < end and end > watermark and k in (None, one["k"])
        ]
        return KINDS[self.kind][1](inside)


def drawn_queries(draw: random.Random) -> dict[str, Asked]:
    """Draw queries of several ranges and slides, nested and not, over few synopses."""
    found = {}
    for number in range(draw.randint(2, 8)):
        slide = draw.choice([1, 2, 3, 5])
        reach, keyed = draw.choice([slide, 2 * slide, 6, 10, 17]), draw.random() < 0.5
        found[f"q{number}"] = Asked(draw.choice(list(KINDS)), reach, slide, keyed, draw.random() < 0.3)
    return found


def drawn_batches(draw: random.Random) -> list[Rows]:
    """Draw batches of rows, some of them late."""
    found, clock = [], 0.0
    for _ in range(draw.randint(3, 7)):
        clock += draw.choice([0.5, 3, 8, 14])
        times = [clock + draw.uniform(-2, 3) for _ in range(draw.randint(1, 6))]
        times += [clock - draw.uniform(2, 15) for _ in range(draw.choice([0, 0, 2]))]
        values = [(max(0.0, t), draw.randrange(9), draw.choice("ab"), draw.randrange(4)) for t in times]
        found.append([dict(row(*value)) for value in values])
    return found


def fed(made: MadeStream, batches: list[Rows], draw: random.Random) -> list[tuple[float, dict[str, Any]]]:
    """Feed batches, answering some of what waits in between; return all rows with the watermark that they met."""
    met, watermark = list[tuple[float, dict[str, Any]]](), -1.0
    for batch in batches:
        made.clock.advance(f"{draw.randint(0, 2)} s")
        met += [(watermark, one) for one in batch]
        made.feed(*batch)
        watermark = max(watermark, *(one["ts"] / SECOND - 2 for one in batch))
        keys = list(made.pipeline.committer.unanswered.items)
        made.pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))
        if draw.random() < 0.1:
            made.reopen()
            made.runner.let_answers_lag()
    made.runner.flush()
    return met


@settings(max_examples=cases(12), deadline=None)
@given(seed=st.integers(0, 1 << 30), kernel=st.sampled_from(["fast", "scan"]))
def test_whatever_runs_together_windows_say_what_plain_rows_say(
    seed: int, kernel: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw, folder = random.Random(seed), tmp_path_factory.mktemp("together")
    queries, batches = drawn_queries(draw), drawn_batches(draw)
    said: dict[str, dict[str, list[Any]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.stream.evaluation_order.GROUP_S", draw.choice([0.0, 0.1]))
        for technique in ("No-S", draw.choice(["CS", "C-LP"])):
            how = {"kernel": kernel, "lateness_us": 2 * SECOND, "synchronize": technique}
            made = opened(folder / technique, {name: one.text for name, one in queries.items()}, **how)
            met = fed(made, batches, draw)
            said[technique] = {name: made.timeline(name) for name in queries}
            for name, asked in queries.items():
                for end, *columns in said[technique][name]:
                    assert columns[-1] == asked.answer(end, columns[0] if asked.keyed else None, met), (technique, name)
    for name, asked in queries.items():
        ends = {technique: [end for end, *_ in answers[name]] for technique, answers in said.items()}
        assert all(found == sorted(found) for found in ends.values())
        if asked.fresh:
            assert len({max(found, default=0) for found in ends.values()}) == 1 or asked.keyed
        else:
            assert all(answers[name] == said["No-S"][name] for answers in said.values())


# -- operations --------------------------------------------------------------------------------------------------------


def operations(folder: Path, technique: str, queries: dict[str, str], **how: Any) -> int:
    """Count what merging windows that wait takes, after sixty updates."""
    made = opened(folder / technique, queries, synchronize=technique, clock=ManualClock("9999-01-01"), **how)
    for second in range(61):
        made.clock.advance("1 s")
        made.feed(row(second, second))
    layout = made.pipeline.layout
    assert layout is not None
    made.pipeline.committer.drain(layout)
    return made.pipeline.synopsis.final_operations


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_nested_ranges_of_several_slides_and_shapes_take_one_pass(tmp_path: Path, kernel: str) -> None:
    #   ends at 60:  [RANGE 10], [RANGE 20], … [RANGE 60], each of a shape of its own; slices are of a second
    queries = {
        f"q{reach}": f"SELECT approx_count_distinct(v) + {reach} AS n FROM s [RANGE {reach} s SLIDE 60 s]"
        for reach in (10, 20, 30, 40, 50, 60)
    }
    queries["often"] = "SELECT k, count(*) AS n FROM s [RANGE 1 s SLIDE 1 s] GROUP BY k"  # an operation a second
    found = {one: operations(tmp_path, one, queries, kernel=kernel) for one in ("C-LP", "CS", "No-S")}
    assert found["C-LP"] == found["CS"] <= 60 + 60 + 6  # the slices once, and a subtraction a window to count its rows
    assert found["No-S"] == 60 + 210 if kernel == "scan" else found["No-S"] > found["CS"]


# -- jobs --------------------------------------------------------------------------------------------------------------

FINISHED_BY_SPARK = {  # their outputs are typed otherwise than Arrow would compute them
    "T0": "SELECT count(*) AS p FROM s [RANGE 10 s SLIDE 2 s]",
    "T1": "SELECT k, sum(v) AS p FROM s [RANGE 9 s SLIDE 3 s] GROUP BY k",
    "T2": "SELECT max(v) AS p FROM s [RANGE 8 s SLIDE 4 s]",
}


def in_one_column(asked: list[int], requests: Sequence[FinishRequest]) -> list[Finished]:
    """Finish rows as Spark would, but for what they say; note how many shapes were asked for."""
    asked.append(len(requests))
    found = []
    for request in requests:
        rows = request.table.num_rows
        outputs = [["x"] * rows if text == "`k0`" else [0.0] * rows for text in request.outputs]
        table = pa.table(outputs, [f"o{i}" for i in range(len(outputs))])
        found.append(Finished(table, np.ones(rows, np.bool_), np.zeros(rows, np.bool_), None))
    return found


@pytest.mark.parametrize(("technique", "jobs"), [("C-LP", [3]), ("No-S", [1, 1, 1])])
def test_outputs_that_spark_finishes_are_one_job_for_all_that_run_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, technique: str, jobs: list[int]
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("penstock.stream.context.finish", lambda _, requests: in_one_column(asked, requests))
    made = opened(tmp_path / "made", FINISHED_BY_SPARK, synchronize=technique)
    made.feed(row(0), row(4))
    layout = made.pipeline.layout
    assert layout is not None
    made.pipeline.committer.drain(layout)
    assert asked == jobs
    assert [end for end, *_ in made.timeline("T0")] == [2.0, 4.0]


@pytest.mark.parametrize(("technique", "together"), [("C-LP", 3), ("H-LP", 3), ("CS", 3), ("No-S", 1)])
def test_windows_of_groups_that_executors_keep_are_taken_together(
    tmp_path: Path, technique: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # nothing is so quick that it needs no order
    queries = {f"T{s}": f"SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE {s} s] GROUP BY k" for s in (2, 3)}
    queries["other"] = "SELECT j, k, max(v) AS x FROM s [RANGE 10 s SLIDE 2 s] GROUP BY j, k"
    made = opened(tmp_path / "made", queries, synchronize=technique)
    made.feed(row(0), row(4))
    unanswered, synopsis = made.pipeline.committer.unanswered, made.pipeline.synopsis
    synopsis.spread = frozenset((key.tree, key.keys) for key in synopsis.lanes)
    first = next(iter(unanswered.items))
    assert len(unanswered.together.chosen([first], unanswered.items, unanswered.added_us)) == together
