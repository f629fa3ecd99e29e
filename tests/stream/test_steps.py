"""A step is committed, then answered: whenever the process dies or fails in it, each window is answered once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StateError
from penstock.evaluate.windows.due import Silence
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import plan_queries
from penstock.store.answers import DEFINITION
from penstock.store.commits import Commit, Counts, Paused
from penstock.store.invalid import Invalid
from penstock.stream.progress import Progress
from penstock.stream.step import Step, commit_of
from penstock.testing import ManualClock
from tests.cases import cases
from tests.store.dying import Died, dying_at
from tests.stream.made import SECOND, MadeStream, definition, row

QUERIES = {
    "all": "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 20 s SLIDE 10 s]",
    "by_k": "SELECT k, max(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k",
    "revised": "SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 min')",
    "changes": "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k WITH (emit = 'change')",
}


@pytest.fixture(autouse=True)
def _answered_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step write the same however busy the machine is: what seems to take long would be answered in parts."""
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 1e9)


Action = Callable[[MadeStream], object]
STEPS: dict[str, Action] = {  # each makes windows due, and may be taken again
    "batch": lambda made: made.feed(row(5, 9), row(31), row(13, 2, "b"), number=2),
    "heartbeat": lambda made: made.heartbeat(),
    "flush": lambda made: made.runner.flush(),
    "change": lambda made: made.runner.settle(),
}


def begun(folder: Path, kind: str = "") -> MadeStream:
    """Open a stream that has seen two batches, and has a step of some kind to take."""
    folder.mkdir()
    made = MadeStream(folder, idle_us=10 * SECOND, clock=ManualClock("1970-01-01 00:01:00"))
    for name, text in QUERIES.items():
        made.create(name, text)
    made.feed(row(1), row(2, 4, "b"))
    made.feed(row(12, 3), row(14, 8))
    made.clock.advance("20 s")
    if kind == "change":  # a query that the stream has not heard of yet, whose first windows are stored
        made.catalog.create_queries([made.typed_text("SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]", "new")])
    return made


def said(made: MadeStream) -> dict[str, list[dict[str, Any]]]:
    """Read all that was ever said, in the order of the log."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in made.catalog.query_names()}
    for _, tables in made.pipeline.answers.batches(-1):
        for table in tables:
            for one in table.to_pylist():
                found[made.catalog.name_of(one.pop(DEFINITION))].append(one)
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def taken_in_peace(kind: str, folder: Path) -> tuple[MadeStream, list[str]]:
    """Take a step, and list the moments that it reaches."""
    made = begun(folder, kind)
    with dying_at(-1) as reached:
        STEPS[kind](made)
    assert {"commit.before", "commit.after", "answers.before", "answers.after"} <= set(reached)
    return made, list(reached)


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_that_the_process_dies_in_is_answered_once_when_it_is_taken_again(kind: str, tmp_path: Path) -> None:
    peaceful, moments = taken_in_peace(kind, tmp_path / "peaceful")
    wanted, standing = said(peaceful), peaceful.standing()
    for nth, moment in enumerate(moments):
        made = begun(tmp_path / f"{nth}", kind)
        before = said(made)
        with pytest.raises(Died), dying_at(nth):
            STEPS[kind](made)
        made.reopen()
        committed = "commit.after" in moments[: nth + 1]
        assert said(made) == (wanted if committed else before), moment  # what was due is answered at once
        if kind == "heartbeat" and not committed:
            made.clock.advance("20 s")  # idleness counts anew
        STEPS[kind](made)
        assert said(made) == wanted, moment
        made.reopen()
        assert (said(made), made.standing()) == (wanted, standing), moment


@pytest.mark.parametrize("kind", ["batch", "flush", "change"])
def test_a_step_that_fails_goes_back_to_what_was_committed(kind: str, tmp_path: Path) -> None:
    peaceful, moments = taken_in_peace(kind, tmp_path / "peaceful")
    wanted, standing = said(peaceful), peaceful.standing()
    for nth, moment in enumerate(moments):
        made = begun(tmp_path / f"{nth}", kind)
        with pytest.raises(StateError, match="the disk is full"), dying_at(nth, error=OSError("the disk is full")):
            STEPS[kind](made)
        STEPS[kind](made)
        assert (said(made), made.standing()) == (wanted, standing), moment


def test_answers_are_delivered_again_after_a_death_before_sinks_had_them(tmp_path: Path) -> None:
    made = begun(tmp_path / "made")
    made.delivered.clear()
    with pytest.raises(Died), dying_at(0, "answers.after"):
        STEPS["batch"](made)
    assert made.delivered == []
    number = made.pipeline.progress.clock.number
    made.reopen()
    answered = [(n, sum(t.num_rows for t in tables)) for n, tables in made.pipeline.answers.batches(number - 1)]
    assert [n for n, _ in made.delivered] == [n for n, _ in answered] == [number, number + 1]  # revisions, windows


def test_a_batch_that_spark_sends_again_changes_nothing(tmp_path: Path) -> None:
    made = begun(tmp_path / "made")
    STEPS["batch"](made)
    before = made.standing(), said(made)
    for _ in range(2):
        STEPS["batch"](made)
        assert (made.standing(), said(made)) == before
        made.reopen()


def test_a_commit_tells_its_kind_what_was_due_and_what_rows_were_judged_by(tmp_path: Path) -> None:
    made = begun(tmp_path / "made")
    kinds = list[tuple[str, int | None, Any]]()
    for step in ("batch", "heartbeat", "flush"):
        STEPS[step](made)
        last = made.pipeline.commits.last()
        assert last is not None
        kinds.append((last.kind, last.judged_us, dict(last.due).get("1")))
        made.clock.advance("30 s")
    first, count, until, silent = 0, 1, 2, 3
    assert [kind for kind, _, _ in kinds] == ["batch", "heartbeat", "flush"]
    assert [judged for _, judged, _ in kinds] == [14 * SECOND, None, None]
    (due,) = kinds[0][2]
    assert (due[first], due[count], due[until], due[silent]) == (20 * SECOND, 2, 31 * SECOND, 0)


# -- what a commit holds is what it takes to go on -------------------------------------------------------------------

times = st.integers(-(1 << 40), 1 << 40)
maybe = st.none() | times
numbers = st.integers(1, 5)
by_number = st.dictionaries(numbers, times, max_size=4)
counts = st.builds(Counts, *[st.integers(0, 99)] * 4, corrected=st.integers(0, 9), duplicate=st.integers(0, 9))
paused = st.builds(Paused, times, times, times, st.text(max_size=5))
silences = st.builds(Silence, st.integers(0, 20_000), st.integers(0, 9))


@st.composite
def progresses(draw: st.DrawFn) -> Progress:
    """Make a stream that stands anywhere."""
    progress = Progress()
    clock, windows = progress.clock, progress.windows
    clock.number, clock.batch = draw(st.integers(-1, 99)), draw(st.integers(-1, 99))
    clock.watermark_us, clock.last_us, clock.first_us = draw(maybe), draw(maybe), draw(maybe)
    clock.counts, clock.ended, clock.source = draw(counts), draw(st.booleans()), draw(st.text(max_size=3))
    clock.invalid = Invalid(draw(st.integers(0, 9)), draw(st.integers(0, 9)))
    windows.starts = draw(st.dictionaries(numbers, maybe, max_size=5))
    windows.next_ends = {number: draw(times) for number in windows.starts if draw(st.booleans())}
    windows.first_ends, windows.resumed_ends, windows.failed_us = draw(by_number), draw(by_number), draw(by_number)
    windows.too_late, windows.departed = draw(by_number), draw(st.dictionaries(st.text(max_size=4), times, max_size=3))
    windows.paused = draw(st.dictionaries(numbers, paused, max_size=3))
    windows.silences = draw(st.dictionaries(numbers, silences, max_size=3))
    return progress


@cache
def one_query() -> Layout:
    return lay_out(plan_queries([definition(QUERIES["all"])], "shared paired", 7), "ts")


@settings(max_examples=cases(60), deadline=None)
@given(progress=progresses(), kind=st.sampled_from(["batch", "heartbeat", "change", "flush", "backfill"]))
def test_whatever_stands_comes_back_from_its_commit(progress: Progress, kind: Any) -> None:
    commit = commit_of(Step(kind, (), 5), one_query(), progress, Path("nowhere"), None)
    read = Commit.from_record(json.loads(json.dumps(commit.to_record())))
    again = Progress()
    again.restore(read)
    assert asdict(again.clock) == {**asdict(progress.clock), "number": progress.clock.number + 1}
    for known in fields(progress.windows):
        if known.name not in ("clock", "names"):
            assert getattr(again.windows, known.name) == getattr(progress.windows, known.name), known.name
    assert (read.kind, read.clock_us, read.catalog_version) == (kind, 5, 7)


def test_a_step_without_partials_commits_none(tmp_path: Path) -> None:
    made = begun(tmp_path / "made")
    STEPS["heartbeat"](made)
    *_, (commit, partials) = made.pipeline.commits.replay()
    assert (commit.kind, partials) == ("heartbeat", None)
    STEPS["flush"](made)
    *_, (commit, partials) = made.pipeline.commits.replay()
    assert (commit.kind, commit.ended, partials) == ("flush", True, None)


def test_partials_come_back_as_they_were_made(tmp_path: Path) -> None:
    made = begun(tmp_path / "made")
    tables = [table for _, table in made.pipeline.commits.replay() if table is not None]
    assert [isinstance(table, pa.Table) for table in tables] == [True, True]
    assert sum(tables[0].filter(pa.array([g == 0 for g in tables[0]["grouping"].to_pylist()]))["rows"].to_pylist()) == 2
