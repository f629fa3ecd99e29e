"""Pending windows are cut into rounds that fit: each window once, in order of time, those that share together."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.pending import Pending, Rounds
from penstock.kernel.synopsis import Synopsis

EACH = 3 * 48 + 2 * 48  # bytes of an answer with one output and one component


def pending(number: int, lane: str, ends: EndRuns, *, keyed: bool = False) -> Pending:
    query = SimpleNamespace(keys=("k",) * keyed, outputs=("x",), sets=())
    definition = SimpleNamespace(id=number, query=query, typed=SimpleNamespace(components=(_Component(),)))
    key = SimpleNamespace(keys=("k",) * keyed, name=lane)
    return Pending(cast(Any, definition), cast(Any, _Lane(lane, key.keys)), ends)


class _Component:
    is_state = False


class _Lane(tuple[Any, ...]):
    def __new__(cls, name: str, keys: tuple[str, ...]) -> _Lane:
        return super().__new__(cls, (name, keys))

    @property
    def keys(self) -> tuple[str, ...]:
        return cast(tuple[str, ...], self[1])


def rounds_of(groups: int, size: int) -> Rounds:
    synopsis = SimpleNamespace(most_groups=lambda lane: groups if lane.keys else 1)
    return Rounds(cast(Synopsis, synopsis), answers=1 << 40, size=size)


def test_rounds_hold_every_window_once_in_order_of_time_and_fit() -> None:
    draw = random.Random(3)
    cut = 0
    for _ in range(300):
        size = draw.randint(1, 40) * EACH
        asked = []
        for number in range(draw.randint(1, 5)):
            slide, first = draw.choice([1, 2, 3, 10]), draw.randint(-20, 20)
            counts = [draw.randint(1, 30) for _ in range(draw.randint(1, 3))]
            firsts = [first]
            for count in counts[:-1]:
                firsts.append(firsts[-1] + slide * (count + draw.randint(1, 5)))
            asked.append(pending(number, draw.choice("ab"), EndRuns(np.array(firsts), np.array(counts), slide)))
        found = list(rounds_of(1, size).cut(asked))
        for place, one in enumerate(asked):
            said = [due.ends for listed in found for due in listed if due.definition is one.definition]
            assert np.concatenate(said).tolist() == one.ends.to_array().tolist(), place
        for listed in found:
            ends = np.concatenate([due.ends for due in listed])
            fits = len(ends) * EACH <= size
            assert fits or (len(set(ends.tolist())) == 1 and len({due.lane for due in listed}) == 1)
        spans = [(min(d.ends[0] for d in listed), max(d.ends[-1] for d in listed)) for listed in found]
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        cut += len(found) > 1
    assert cut > 100


def test_windows_that_few_groups_are_in_are_cut_less_once_that_is_known() -> None:
    #   a thousand groups are known, and ten of them are in a window: the second round is larger than the first
    rounds = rounds_of(1_000, 5 * 1_000 * (EACH + 48 + 8))
    asked = [pending(1, "a", EndRuns.between(1, 500, 1), keyed=True)]
    sizes = []
    for listed in rounds.cut(asked):
        sizes.append(len(listed[0].ends))
        rounds.note(10 * sizes[-1])
    assert sizes[0] == 5
    assert sizes[1] > 50
    assert sum(sizes) == 500
    assert len(list(rounds.cut(asked))) < len(sizes)  # known from the last time


def test_a_million_times_a_million_windows_are_cut_without_being_listed() -> None:
    #   what is listed at a time is bounded, however much is due
    endless = pending(1, "a", EndRuns.between(0, 10**12, 1))
    first = next(iter(rounds_of(1, 1_000 * EACH).cut([endless])))
    assert len(first[0].ends) == 1_000
