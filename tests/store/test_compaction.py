"""Small files become few large ones, and no reader can tell; killed anywhere, nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from penstock.errors import StateError
from penstock.store.answer_files import read_index
from penstock.store.answer_parts import MOST_ROWS
from penstock.store.answers import DEFINITION, AnswerLog, DiskAnswerLog, MemoryAnswerLog, answers_of
from penstock.store.commits import Commit, Counts, DiskCommitLog, Kind
from penstock.store.compaction import FAN, MOST_BYTES, Weighed, worth_merging
from tests.cases import cases
from tests.store.dying import Died, dying_at

# -- which files are put together --------------------------------------------------------------------------------


def after_batches(count: int, shapes: Sequence[str | None] = ("",), size: int = 1) -> list[Weighed]:
    """Simulate so many batches; the shape of each comes from the list, in turn."""
    files: list[Weighed] = []
    for number in range(count):
        files.append(Weighed(1, shapes[number % len(shapes)], size))
        for stretch in reversed(list(worth_merging(files))):
            part = files[stretch.start : stretch.stop]
            merged = Weighed(sum(f.weight for f in part), part[0].shape, sum(f.size for f in part))
            files[stretch.start : stretch.stop] = [merged]
    return files


def test_the_number_of_files_grows_like_the_logarithm_of_the_batches() -> None:
    assert len(after_batches(FAN - 1)) == FAN - 1
    assert after_batches(FAN) == [Weighed(FAN, "", FAN)]
    for count in (100, 1_000, 5_000):
        assert len(after_batches(count)) <= (FAN - 1) * (1 + len(f"{count:x}"))


def test_files_of_different_shapes_and_large_ones_stay_apart() -> None:
    assert len(after_batches(100, ("a", "b"))) == 100
    assert len(after_batches(100, (None,))) == 100
    assert max(f.size for f in after_batches(1_000, size=MOST_BYTES // 40)) <= MOST_BYTES


# -- partials ----------------------------------------------------------------------------------------------------


def commit(number: int, highest: int | None, version: int = 1, kind: Kind = "batch") -> Commit:
    plain = Commit(number, number, version, highest, highest, 0, 0, Counts(), "")
    return replace(plain, highest=highest, kind=kind)


def add(log: DiskCommitLog, number: int, version: int = 1, kind: Kind = "batch") -> None:
    """Commit a batch whose slice is its number; every fifth one brings no partials."""
    empty = number % 5 == 4
    table = pa.table({} if empty else {"label": [number], "text": [f"é{number}"]})
    log.append(commit(number, None if empty else number, version, kind), table, b'{"about": 1}')


def slices(log: DiskCommitLog) -> list[int]:
    return [label for _, table in log.replay() if table is not None for label in table["label"].to_pylist()]


def test_partials_are_put_together_and_read_back_in_order(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    for number in range(300):
        add(log, number)
        log.compact()
    every = [n for n in range(300) if n % 5 != 4]
    assert slices(log) == slices(DiskCommitLog(tmp_path)) == every
    assert len(list(tmp_path.iterdir())) < 100  # instead of 540
    covering = [(c.covers, c.number, c.highest) for c, _ in DiskCommitLog(tmp_path).replay() if c.covers is not None]
    assert covering[0][0] == 0
    assert all(first < number and highest == number for first, number, highest in covering if first is not None)
    for number in range(300, 320):
        add(log, number)
        log.expire(310)
        log.compact()
    assert [n for n in slices(DiskCommitLog(tmp_path)) if n >= 310] == [n for n in range(310, 320) if n % 5 != 4]
    assert len(list(tmp_path.iterdir())) < 50


def test_plans_and_backfills_stay_apart_and_the_last_commit_stays_alone(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    for number in range(100):
        add(log, number, version=1 + number // 50, kind="backfill" if number == 20 else "batch")
        log.compact()
    found = [(c.catalog_version, c.covers, c.number) for c, t in log.replay() if t is not None]
    assert {version for version, first, number in found if first is not None and first < 50 <= number} == set()
    assert (1, None, 20) in found
    last = log.last()
    assert last is not None
    assert (last.number, last.covers) == (99, None)


STEPS = st.lists(
    st.sampled_from(["add"] * 12 + ["expire", "compact", "compact", "reopen", "die", "plan"]), min_size=40, max_size=90
)


@settings(max_examples=cases(8), phases=(Phase.generate,))
@given(steps=STEPS, data=st.data())
def test_no_step_and_no_crash_loses_or_doubles_partials(
    steps: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log, number, floor, version = DiskCommitLog(folder), 0, 0, 1
    for step in [*steps, "reopen"]:
        match step:
            case "add":
                add(log, number, version)
                number += 1
            case "plan":
                version += 1
            case "expire":
                floor = data.draw(st.integers(floor, max(floor, number)))
                log.expire(floor)
            case "compact":
                log.compact()
            case "reopen":
                log = DiskCommitLog(folder)
            case "die":
                with dying_at(data.draw(st.integers(0, 12))), contextlib.suppress(Died):
                    add(log, number, version)
                    log.compact()
                log = DiskCommitLog(folder)
                last = log.last()
                number = 0 if last is None else last.number + 1  # Spark sends again what was not committed
        if step == "add":
            continue
        found = slices(log)
        assert found == sorted(set(found))
        assert [n for n in found if n >= floor] == [n for n in range(floor, number) if n % 5 != 4]


# -- answers -----------------------------------------------------------------------------------------------------


def answers(number: int, definitions: Sequence[int] = (1, 2, 3), at: int | None = None) -> list[pa.Table]:
    """Make a commit's answers: two tables with different columns, window ends in µs as given."""
    end = pa.array([number if at is None else at] * len(definitions)).cast(pa.timestamp("us", tz="UTC"))
    ids = pa.array(definitions, pa.int64())
    plain = pa.table({DEFINITION: ids, "window_end": end, "n": pa.array([number] * len(definitions))})
    return [
        plain,
        plain.set_column(0, DEFINITION, pa.array([d + 100 for d in definitions])).rename_columns(
            [DEFINITION, "window_end", "text"]
        ),
    ]


def opened(kind: str, folder: Path) -> AnswerLog:
    return DiskAnswerLog(folder) if kind == "disk" else MemoryAnswerLog()


def values(log: AnswerLog, definition: int) -> list[int]:
    return [value for table in answers_of(log, [definition]) for value in table.column(1).to_pylist()]


def by_batch(log: AnswerLog, after: int) -> dict[int, list[tuple[int, int]]]:
    found = {}
    for number, tables in log.batches(after):
        assert all(t.column_names[0] == DEFINITION and "#commit" not in t.column_names for t in tables)
        rows = [(d, v) for t in tables for d, v in zip(t[DEFINITION].to_pylist(), t.column(2).to_pylist(), strict=True)]
        found[number] = sorted(rows)
    return found


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_answers_are_put_together_and_still_known_by_query_and_commit(kind: str, tmp_path: Path) -> None:
    log = opened(kind, tmp_path)
    for number in range(0, 200, 2):
        log.append(number, answers(number))
        log.compact(number)
    if kind == "disk":
        assert len(list(tmp_path.iterdir())) < 25
        log = DiskAnswerLog(tmp_path)
    assert values(log, 2) == values(log, 103) == list(range(0, 200, 2))
    assert values(log, 4) == []
    for after in (-1, 0, 7, 100, 197, 198):
        assert list(by_batch(log, after)) == [n for n in range(0, 200, 2) if n > after]
    assert by_batch(log, 9)[10] == [(d, 10) for d in (1, 2, 3, 101, 102, 103)]
    assert log.last() == 198


def test_of_large_files_only_the_parts_of_a_query_are_read(tmp_path: Path) -> None:
    log = DiskAnswerLog(tmp_path)
    for number in range(FAN + 1):
        log.append(number, answers(number, range(4_000)))
    log.compact()
    path, _ = sorted(tmp_path.glob("*.answers"))  # the newest are not put together with others
    file = read_index(path)
    assert max(part.holds.rows for part in file.parts) <= MOST_ROWS
    assert len([part for part in file.parts if part.holds.any_of([17])]) == 1
    with path.open("r+b") as content:
        (part,) = [part for part in file.parts if part.holds.any_of([4_099])]
        content.seek(part.offset + part.length // 2)
        content.write(b"~damage~")
    assert values(DiskAnswerLog(tmp_path), 17) == list(range(FAN + 1))
    with pytest.raises(StateError, match="checksum"):
        values(DiskAnswerLog(tmp_path), 4_099)


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_expired_answers_go_at_once_from_results_and_in_time_from_files(kind: str, tmp_path: Path) -> None:
    log = opened(kind, tmp_path)
    for number in range(100):
        log.append(number, answers(number, [1, 2]))
        log.expire({1: number - 9, 101: number - 9})
        log.compact(number)
        if number % 20 == 9:
            assert values(log, 1) == list(range(number - 9, number + 1))
    assert values(log, 2) == values(log, 102) == list(range(100))
    held = [row for rows in by_batch(log, -1).values() for row in rows]
    assert sum(d in (1, 101) for d, _ in held) < 80  # of 200
    log.expire({d: 1_000 for d in (1, 2, 101, 102)})
    for number in range(100, 100 + FAN):
        log.append(number, answers(number, [3]))
        log.compact(number)
    assert {d for rows in by_batch(log, -1).values() for d, _ in rows} == {3, 103}
    assert log.last() == 99 + FAN


def test_what_a_sink_has_not_taken_is_not_expired(tmp_path: Path) -> None:
    log = DiskAnswerLog(tmp_path)
    for number in range(64):
        log.append(number, answers(number))
        log.expire({d: 1_000 for d in (1, 2, 3, 101, 102, 103)})
        log.compact(20)
    assert values(log, 1) == []
    assert [n for n in by_batch(log, 20)] == list(range(21, 64))
    for number in range(64, 64 + FAN + 1):
        log.append(number, answers(number))
    log.compact(64 + FAN)
    assert list(by_batch(DiskAnswerLog(tmp_path), -1)) == [64 + FAN]  # a restart asks what the newest cover
    assert DiskAnswerLog(tmp_path).last() == 64 + FAN


@settings(max_examples=cases(8), phases=(Phase.generate,))
@given(steps=STEPS, data=st.data())
def test_no_step_and_no_crash_loses_or_doubles_answers(
    steps: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log, number, floor = DiskAnswerLog(folder), 0, 0
    for step in [*steps, "reopen"]:
        match step:
            case "add" | "plan":
                log.append(number, answers(number, [1, 2]))
                number += 1
            case "expire":
                floor = data.draw(st.integers(floor, max(floor, number)))
            case "compact":
                log.compact(number - data.draw(st.integers(0, 3)))
            case "reopen":
                log = DiskAnswerLog(folder)
            case "die":
                with dying_at(data.draw(st.integers(0, 12))), contextlib.suppress(Died):
                    log.append(number, answers(number, [1, 2]))
                    log.compact(number)
                log = DiskAnswerLog(folder)
                last = log.last()
                number = 0 if last is None else last + 1
        log.expire({1: floor, 101: floor})
        if step == "add":
            continue
        assert values(log, 1) == values(log, 101) == list(range(floor, number))
        assert values(log, 2) == list(range(number))
        assert {n: [v for d, v in rows if d == 2] for n, rows in by_batch(log, -1).items()} == {
            n: [n] for n in range(number)
        }


@settings(max_examples=cases(8), phases=(Phase.generate,))
@given(seed=st.integers(0, 1 << 60))
def test_answers_may_come_and_be_read_between_two_steps_of_putting_files_together(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("answers", "compaction"):
            patch.setattr(f"penstock.store.{module}.FAN", 3)
        put_together_while_answers_come(random.Random(seed), tmp_path_factory.mktemp("log"))


def put_together_while_answers_come(draw: random.Random, folder: Path) -> None:
    log, number, floor, cut = DiskAnswerLog(folder), 0, 0, 0
    for _ in range(3):
        for _ in range(draw.randint(1, 8)):
            log.append(number, answers(number, [1, 2]))
            number += 1
        for _ in log.compacting(number - draw.randint(0, 3)):
            cut += 1
            if draw.random() < 0.5:
                log.append(number, answers(number, [1, 2]))
                number += 1
            if draw.random() < 0.2:
                floor = draw.randint(floor, number)
                log.expire({1: floor, 101: floor})
            if draw.random() < 0.1:
                log = DiskAnswerLog(folder)  # as after the end of the process between two steps
                log.expire({1: floor, 101: floor})
                break
            assert values(log, 1) == values(log, 101) == list(range(floor, number))
            assert values(log, 2) == list(by_batch(log, -1)) == list(range(number))
    log = DiskAnswerLog(folder)
    log.expire({1: floor, 101: floor})
    assert values(log, 1) == list(range(floor, number))
    assert values(log, 2) == list(by_batch(log, -1)) == list(range(number))
    event(f"{cut // 5 * 5} steps or more")


def test_results_are_read_while_files_are_put_together(tmp_path: Path) -> None:
    log, stop, seen = DiskAnswerLog(tmp_path), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            for found in (values(log, 1), list(by_batch(log, -1))):
                seen.append(found == list(range(len(found))))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        log.append(number, answers(number))
        log.compact(number)
    stop.set()
    reader.join()
    assert seen
    assert all(seen)
