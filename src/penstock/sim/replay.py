"""Replays a trace of a live engine under a policy: the same windows become final, and the policy orders them anew.

The rules are those of the live desk: one group is answered at a time and is not interrupted, a step of a stream goes
before the next group of that stream, windows of one item that wait together run together, and what fits into one go is
a group. What becomes final while nothing waits is answered in one go if it is quick. Both choose and cut by the same
code (:mod:`penstock.schedule.work_groups`), and by what the engine believed that windows cost. Steps are wanted when
they were: whether a policy would have had a batch read earlier or later is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.schedule.policy import Policy
from penstock.schedule.recorded import RecordedWindows, Recording
from penstock.schedule.work_groups import GROUP_S, ItemArrays, ItemFacts, cut_end, first_group, is_quick, longest
from penstock.sim.recorded_costs import ItemOf, RecordedCosts, item_of
from penstock.sim.recorded_timeline import PlacedStep, RecordedTimeline

LEAST_S: Final = 1e-6
WHOLE: Final = -1  # in place of an item's number: windows of all items of a stream, which are answered in one go
Stream = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Portion:
    """Some windows of each query at a place of a recording: those from ``first`` on, so many."""

    place: int
    first: int
    windows: int
    final_us: int  # in the replay
    due_us: int


@dataclass(frozen=True, slots=True)
class ReplayedWindows:
    """Windows that were answered in a replay."""

    place: int  # in the recording
    windows: int  # of each query
    final_us: int
    due_us: int
    done_us: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay gave."""

    policy: str
    answered: Sequence[ReplayedWindows]  # in the order in which they were answered
    groups: Sequence[tuple[ItemOf, ...]]  # the items of each group, in the order in which they ran
    busy_us: float  # that windows took, without what groups and steps do
    unknown: int  # answers that ran together with others, or apart, as the trace never shows it


@dataclass(slots=True)
class _Item:
    """Windows that wait together."""

    portions: list[Portion]
    seconds: float
    priority: float
    final_us: int
    due_us: int
    queries: int
    fixed: float  # seconds that they take once, however many they are


@dataclass(slots=True)
class _Desk:
    """What waits, and what has become of the rest."""

    waiting: dict[Stream, dict[ItemOf, _Item]] = field(default_factory=dict)
    free_us: dict[Stream, int] = field(default_factory=dict)  # when a stream's memory is free
    last: dict[Stream, int] = field(default_factory=dict)  # the item that ran last, by its number
    answered: list[ReplayedWindows] = field(default_factory=list)
    groups: list[tuple[ItemOf, ...]] = field(default_factory=list)
    busy_us: float = 0.0
    unknown: int = 0


def replay(
    recording: Recording,
    policy: Policy,
    costs: RecordedCosts | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> Replayed:
    """Answer the windows of a recording in the order of a policy; ``report`` is told the share that is done."""
    return _Replay(recording, policy, RecordedCosts.of(recording) if costs is None else costs).run(report)


class _Replay:
    """One replay."""

    def __init__(self, recording: Recording, policy: Policy, costs: RecordedCosts) -> None:
        """Begin before the first step."""
        self.windows, self.policy, self.costs = recording.windows, policy, costs
        self.timeline, self.desk = RecordedTimeline.of(recording), _Desk()
        self.together = _answers_together(recording.windows)

    def run(self, report: Callable[[float], None]) -> Replayed:
        """Let steps and groups take turns until all windows are answered."""
        steps, desk = list(reversed(self.timeline.steps)), self.desk
        loose = sorted(self.timeline.loose, key=self._listed, reverse=True)
        now_us, told = 0, 0
        while steps or loose or any(desk.waiting.values()):
            while loose and (final_us := self.windows[loose[-1]].final_us) <= now_us:
                together = list[int]()
                while loose and self.windows[loose[-1]].final_us == final_us:
                    together.append(loose.pop())
                self._release([(place, final_us) for place in together])
            while steps and steps[-1].step.wanted_us <= now_us:
                self._take(steps.pop())
            ready = {one: items for one, items in desk.waiting.items() if items and desk.free_us.get(one, 0) <= now_us}
            if ready:
                now_us = self._answer(self._chosen(ready, now_us), now_us)
            else:
                soon = [desk.free_us.get(one, 0) for one, items in desk.waiting.items() if items]
                soon += [steps[-1].step.wanted_us] if steps else []
                now_us = min([*soon, self.windows[loose[-1]].final_us] if loose else soon, default=now_us)
            if len(desk.answered) > told + 1_000:
                told = len(desk.answered)
                report(min(1.0, told / len(self.windows)))
        return Replayed(self.policy.name, desk.answered, desk.groups, desk.busy_us, desk.unknown)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _take(self, placed: PlacedStep) -> None:
        """Let a step run: what its rows would change is answered first, then what it makes final waits."""
        stream = placed.step.run, placed.step.stream
        now_us = max(placed.step.wanted_us, self.desk.free_us.get(stream, 0))
        now_us = self._force(stream, placed.forced, now_us) + placed.hold_us
        released = sorted(placed.released, key=self._listed)
        self._release([(p, now_us - placed.before_end_us(self.windows[p].final_us)) for p in released])
        if placed.answered is not None:
            while self.desk.waiting.get(stream):
                chosen = self._chosen({stream: self.desk.waiting[stream]}, now_us, all_follow=True)
                now_us = self._answer(chosen, now_us)
            now_us += placed.tail_us
        self.desk.free_us[stream] = now_us

    def _listed(self, place: int) -> tuple[int, int]:
        """Return in which order the engine lists windows that become final together: by their queries."""
        return self.windows[place].final_us, self.windows[place].queries[0]

    def _force(self, stream: Stream, places: Iterable[int], now_us: int) -> int:
        """Answer what still waits of some windows, as one group; return the time after it."""
        wanted, items = set(places), self.desk.waiting.get(stream, {})
        taken: dict[ItemOf, list[Portion]] = {}
        for key, item in list(items.items()):
            if mine := [portion for portion in item.portions if portion.place in wanted]:
                taken |= self._by_item(mine)
                item.portions = [portion for portion in item.portions if portion.place not in wanted]
                if not item.portions:
                    del items[key]
        return self._answer(taken, now_us) if taken else now_us

    def _release(self, released: Sequence[tuple[int, int]]) -> None:
        """Let windows wait from when they became final, beside those of their item that wait already."""
        by_stream: dict[Stream, list[Portion]] = {}
        for place, final_us in released:
            one = self.windows[place]
            due_us = one.due_us + final_us - one.final_us
            by_stream.setdefault(item_of(one)[:2], []).append(Portion(place, 0, one.windows, final_us, due_us))
        for stream, portions in by_stream.items():
            items = self.desk.waiting.setdefault(stream, {})
            if not items and is_quick((whole := self._begun(portions)).seconds):
                items[*stream, WHOLE] = whole
                continue
            if (there := items.pop((*stream, WHOLE), None)) is not None:  # later windows join those of their item
                items |= {key: self._begun(some) for key, some in self._by_item(there.portions).items()}
            for key, some in self._by_item(portions).items():
                known = items.get(key)
                if known is None:
                    items[key] = self._begun(some)
                else:
                    items[key] = self._item([*known.portions, *some], known.final_us, known.due_us)

    def _by_item(self, portions: Iterable[Portion]) -> dict[ItemOf, list[Portion]]:
        """Put the windows of each item together."""
        found: dict[ItemOf, list[Portion]] = {}
        for portion in portions:
            found.setdefault(item_of(self.windows[portion.place]), []).append(portion)
        return found

    # -- groups --------------------------------------------------------------------------------------------------

    def _begun(self, portions: list[Portion]) -> _Item:
        """Describe windows that became final just now."""
        return self._item(portions, portions[0].final_us, min(portion.due_us for portion in portions))

    def _item(self, portions: list[Portion], final_us: int, due_us: int) -> _Item:
        """Describe windows that wait together, as the engine does."""
        fixed = sum(self._fixed_s(key) for key in {item_of(self.windows[portion.place]) for portion in portions})
        seconds = max(LEAST_S, fixed + sum(self._expected_s(portion) for portion in portions))
        priority = max(self.windows[portion.place].priority for portion in portions)
        queries = {query for portion in portions for query in self.windows[portion.place].queries}
        return _Item(portions, seconds, priority, final_us, due_us, len(queries), fixed)

    def _expected_s(self, portion: Portion) -> float:
        """Return what the engine believed that some windows would take, beyond what a run of their item takes once."""
        one = self.windows[portion.place]
        once = self._fixed_s(item_of(one)) * one.answers / self.together[item_of(one), one.group]
        return max(0.0, one.expected_s - once) * portion.windows / one.windows

    def _fixed_s(self, item: ItemOf) -> float:
        """Return what a run of an item takes, however many windows it has; nothing where that is not known."""
        return self.costs.set_up.get(item, 0.0) / 1e6

    def _chosen(
        self, waiting: dict[Stream, dict[ItemOf, _Item]], now_us: int, *, all_follow: bool = False
    ) -> dict[ItemOf, list[Portion]]:
        """Take the windows that are answered next: of one stream, that of the most urgent item.

        Where all others follow before anything else comes, groups grow.
        """
        known = [(key, item) for items in waiting.values() for key, item in items.items()]
        items = ItemArrays.of([self._facts(item) for _, item in known])
        asked, heads = known[0][0][:2], items.heads(now_us, self.costs.group_us / 1e6)
        waited_s = max(0.0, (now_us - max(item.final_us for _, item in known)) / 1e6) if all_follow else 0.0
        places = first_group(self.policy, items, heads, self.desk.last.get(asked, -1), waited_s=waited_s)
        self.desk.last[asked] = int(items.number[places[-1]])
        stream = known[places[0]][0][:2]
        keys = [known[place][0] for place in places if known[place][0][:2] == stream]
        if keys == [(*stream, WHOLE)]:  # everybody has a turn
            self.desk.last[asked] = -1
            return self._by_item(waiting[stream].pop(keys[0]).portions)
        return {key: self._cut(waiting[stream], key, waited_s) for key in keys}

    def _facts(self, item: _Item) -> ItemFacts:
        """Describe an item as the engine does."""
        round_s, number = self._round_s(item), self.windows[item.portions[0].place].queries[0]
        counts = item.queries, self._windows(item)
        times, says = (item.final_us, item.due_us), self._says(item)
        return ItemFacts(round_s, item.seconds, item.priority, *counts, *times, number, says=says)

    def _cut(self, items: dict[ItemOf, _Item], key: ItemOf, waited_s: float) -> list[Portion]:
        """Take an item, or of one that takes too long the windows that end first."""
        item = items[key]
        most_s = max(longest(GROUP_S, waited_s), self._round_s(item))
        if item.seconds > most_s:
            ends = [self._ends(portion) for portion in item.portions]
            first, last = min(first for first, _ in ends), max(last for _, last in ends)
            upto = cut_end(first, last, item.seconds - item.fixed, most_s - item.fixed)
            cut = [self._cut_portion(portion, upto) for portion in item.portions]
            if later := [after for _, after in cut if after.windows]:
                items[key] = self._item(later, item.final_us, item.due_us)
                return [before for before, _ in cut if before.windows]
        del items[key]
        return item.portions

    def _round_s(self, item: _Item) -> float:
        """Return what one window of each query takes, by themselves."""
        return item.fixed + (item.seconds - item.fixed) / self._most_windows(item)

    def _says(self, item: _Item) -> float:
        """Return the part of an item's windows that was believed to have rows."""
        answers = sum(self._answers(portion) for portion in item.portions)
        said = sum(self.windows[one.place].selectivity * self._answers(one) for one in item.portions)
        return said / answers

    def _most_windows(self, item: _Item) -> int:
        """Return the most windows of a query that wait."""
        found: dict[int, int] = {}
        for portion in item.portions:
            for query in self.windows[portion.place].queries:
                found[query] = found.get(query, 0) + portion.windows
        return max(found.values())

    def _cut_portion(self, portion: Portion, upto_us: int) -> tuple[Portion, Portion]:
        """Cut windows into those that end by a time and those that end after it."""
        first, last = self._ends(portion)
        slide = (last - first) // (portion.windows - 1) if portion.windows > 1 else 1
        number = 0 if upto_us < first else min(portion.windows, (upto_us - first) // max(1, slide) + 1)
        place, times = portion.place, (portion.final_us, portion.due_us)
        before = Portion(place, portion.first, number, *times)
        return before, Portion(place, portion.first + number, portion.windows - number, *times)

    def _ends(self, portion: Portion) -> tuple[int, int]:
        """Return the first and the last end of some windows, which lie at even distances."""
        one = self.windows[portion.place]
        slide = (one.last_end_us - one.first_end_us) // (one.windows - 1) if one.windows > 1 else 0
        first = one.first_end_us + slide * portion.first
        return first, first + slide * (portion.windows - 1)

    def _answer(self, taken: dict[ItemOf, list[Portion]], now_us: int) -> int:
        """Answer a group of a stream: all of it is there at its end; return when the next one may begin."""
        desk, own = self.desk, 0.0
        for key, portions in taken.items():
            own += self.costs.set_up.get(key, 0.0)
            own += sum(self.costs.each[portion.place] * portion.windows for portion in portions)
            if key not in self.costs.set_up and not self._is_as_recorded(portions):
                desk.unknown += sum(self._answers(portion) for portion in portions)
        done_us = now_us + round(self.costs.group_us + own)
        for one in (portion for portions in taken.values() for portion in portions):
            desk.answered.append(ReplayedWindows(one.place, one.windows, one.final_us, one.due_us, done_us))
        desk.groups.append(tuple(taken))
        desk.busy_us += own
        desk.free_us[next(iter(taken))[:2]] = done_us
        return done_us + round(self.costs.gap_us)

    def _is_as_recorded(self, portions: Sequence[Portion]) -> bool:
        """Tell whether windows run together that ran together, and no others."""
        groups = {self.windows[portion.place].group for portion in portions}
        one = self.windows[portions[0].place]
        known = self.together[item_of(one), one.group]
        return len(groups) == 1 and sum(self._answers(portion) for portion in portions) == known

    def _answers(self, portion: Portion) -> int:
        """Count the windows of all queries."""
        return portion.windows * len(self.windows[portion.place].queries)

    def _windows(self, item: _Item) -> int:
        """Count the windows of all queries of an item."""
        return sum(self._answers(portion) for portion in item.portions)


def _answers_together(windows: Sequence[RecordedWindows]) -> dict[tuple[ItemOf, int], int]:
    """Count the answers of every run of an item."""
    found: dict[tuple[ItemOf, int], int] = {}
    for one in windows:
        key = item_of(one), one.group
        found[key] = found.get(key, 0) + one.answers
    return found
