"""Which windows are due, against a twin that walks from end to end."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.evaluate.windows import due
from penstock.evaluate.windows.due import EndRuns, due_ends, last_held_end
from penstock.evaluate.windows.due_together import WindowArrays
from penstock.model.window import Window

MOST = 5  # empty windows in a row, in place of ten thousand


def holds(window: Window, end: int, present: list[int]) -> bool:
    return any(end - window.length <= start < end for start in present)


def naive_due(
    window: Window, next_end: int, until: int, present: list[int], empty_too: bool, run: int
) -> tuple[list[int], int, int, int, int]:
    """Walk from window to window, counting empty ones, ``run`` of which came before."""
    found, skipped, begun, end = [], 0, 0, next_end
    while end <= until:
        if holds(window, end, present):
            found.append(end)
            run = 0
        elif empty_too:
            run += 1
            if run <= MOST:
                found.append(end)
            else:
                skipped, begun = skipped + 1, begun + (run == MOST + 1)
        end += window.slide
    return found, end, skipped, begun, run


def test_due_windows_equal_those_of_the_naive_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "MOST_EMPTY", MOST)
    rng = random.Random(6)
    skips = 0
    for _ in range(4_000):
        slide = rng.randint(1, 10)
        window = Window(rng.randint(1, 25), slide, rng.randint(0, slide))
        present = sorted({rng.randint(-50, 150) for _ in range(rng.randint(0, 6))})
        next_end = window.end_at_or_after(rng.randint(-60, 120))
        until = next_end + rng.randint(-5, 200)
        for empty_too, before in ((True, rng.randint(0, MOST + 3)), (False, 0)):
            labels = np.array(present, np.int64)
            found = due_ends(window, next_end, until, labels, empty_too=empty_too, silent=before)
            ends, following, *counts = naive_due(window, next_end, until, present, empty_too, before)
            case = (window, next_end, until, present, empty_too, before)
            assert (found.ends.to_array().tolist(), found.next_end_us) == (ends, following), case
            assert [found.skipped, found.begun, found.silent] == counts, case
            skips += found.skipped > 0
    assert skips > 500


def test_windows_found_together_are_those_found_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "MOST_EMPTY", MOST)
    rng = random.Random(9)
    seen = {"due": 0, "alone": 0, "silent": 0}
    for _ in range(400):
        slides = [rng.randint(1, 10) for _ in range(12)]
        windows = [Window(slide + rng.randint(0, 20), slide, rng.randint(0, slide)) for slide in slides]
        present = np.array(sorted({rng.randint(-50, 150) for _ in range(rng.randint(0, 6))}), np.int64)
        ends = [window.end_at_or_after(rng.randint(-60, 120)) for window in windows]
        silent, until = [rng.randint(0, MOST + 2) for _ in windows], rng.randint(-60, 160)
        listed, alone = WindowArrays.of(windows).due(np.array(ends), until, present, np.array(silent))
        together = dict(zip(listed.places.tolist(), listed.runs(), strict=True))
        for place, window in enumerate(windows):
            one = due_ends(window, ends[place], until, present, empty_too=True, silent=silent[place])
            if alone[place]:
                assert place not in together
                seen["alone"] += 1
                continue
            assert (place in together) == (len(one.ends) > 0)
            if place not in together:
                continue
            found = together[place]
            assert (ends_of := found.to_array().tolist()) == one.ends.to_array().tolist()
            assert (len(found), found.first_us, found.last_us) == (len(ends_of), ends_of[0], ends_of[-1])
            at = listed.places.tolist().index(place)
            assert (int(listed.next_ends[at]), int(listed.silent[at])) == (one.next_end_us, one.silent)
            assert (one.skipped, one.begun) == (0, 0)
            seen["due"] += 1
            seen["silent"] += one.silent > 0
    assert min(seen.values()) > 100, seen


def test_the_last_window_that_holds_a_row_is_found() -> None:
    rng = random.Random(7)
    for _ in range(1_000):
        slide = rng.randint(1, 10)
        window = Window(rng.randint(1, 25), slide, rng.randint(0, slide))
        present = sorted({rng.randint(-50, 50) for _ in range(rng.randint(0, 4))})
        held = [e for e in range(-60, 90) if (e - window.offset) % slide == 0 and holds(window, e, present)]
        assert last_held_end(window, np.array(present, np.int64)) == (held[-1] if held else None)


def test_the_last_windows_that_hold_a_row_are_those_found_one_by_one() -> None:
    rng = random.Random(11)
    for _ in range(500):
        slides = [rng.randint(1, 10) for _ in range(5)]
        windows = [Window(slide + rng.randint(0, 20), slide, rng.randint(0, slide)) for slide in slides]
        present = np.array(sorted({rng.randint(-50, 50) for _ in range(rng.randint(0, 4))}), np.int64)
        least, one_by_one = rng.randint(-60, 60), [last_held_end(window, present) for window in windows]
        found = WindowArrays.of(windows).last_held_ends(present, least)
        assert found.tolist() == [least if end is None else max(end, least) for end in one_by_one]


def test_a_long_silence_is_answered_ten_thousand_times_and_then_skipped() -> None:
    # rows at 0 and at 30,000 s; a window each second:   |0.|1.......10,000|…skipped…|30,000
    window, present = Window(1_000_000, 1_000_000), np.array([0, 30_000_000_000], np.int64)
    found = due_ends(window, 1_000_000, 30_001_000_000, present, empty_too=True)
    assert len(found.ends) == 1 + 10_000 + 1
    assert found.skipped == 30_001 - 10_002
    assert found.ends.to_array()[10_000] == 10_001_000_000
    assert found.ends.to_array()[10_001] == found.next_end_us - 1_000_000 == 30_001_000_000


def test_a_silence_cut_into_batches_is_skipped_as_if_it_were_whole_and_begins_once() -> None:
    window, present = Window(1_000_000, 1_000_000), np.array([0], np.int64)
    answered, skipped, begun, silent, following = 0, 0, 0, 0, 1_000_000
    for until in range(1_000_000, 25_000_000_001, 777_000_000):
        found = due_ends(window, following, until, present, empty_too=True, silent=silent)
        answered, skipped, begun = answered + len(found.ends), skipped + found.skipped, begun + found.begun
        following, silent, present = found.next_end_us, found.silent, present[:0]  # slices expire meanwhile
    assert answered == 1 + 10_000
    assert answered + skipped == following // 1_000_000 - 1
    assert begun == 1


def test_runs_of_ends_are_cut_as_the_ends_listed_one_by_one() -> None:
    rng = random.Random(8)
    for _ in range(500):
        slide, end, firsts, counts = rng.randint(1, 5), rng.randint(-20, 20), [], []
        for _ in range(rng.randint(0, 4)):
            firsts.append(end)
            counts.append(rng.randint(1, 6))
            end += slide * (counts[-1] + rng.randint(1, 3))
        runs = EndRuns(np.array(firsts, np.int64), np.array(counts, np.int64), slide)
        ends = [first + i * slide for first, count in zip(firsts, counts, strict=True) for i in range(count)]
        low, high = rng.choice([None, rng.randint(-30, 60)]), rng.randint(-30, 60)
        kept = [end for end in ends if (low is None or end > low) and end <= high]
        assert (len(runs), runs.to_array().tolist()) == (len(ends), ends)
        cut = runs.cut(low, high)
        assert cut.to_array().tolist() == kept
        assert (len(cut), cut.last_us) == (len(kept), max(kept, default=-(1 << 62)))
        assert not kept or cut.first_us == kept[0]
        assert max(-(1 << 62), *ends, -(1 << 62)) == runs.last_us
