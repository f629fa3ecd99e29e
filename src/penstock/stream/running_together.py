"""Chooses which items are answered together with those that a policy has chosen, so that they share a sweep or a job.

Golab, Bijay and Özsu 2006, §4.4. A synopsis is updated when a batch makes windows final. An item is due when its first
window is final, and late once the synopsis was updated again and it still waits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.lanes import Lane
from penstock.kernel.answering import Answering
from penstock.kernel.pending import ItemKey, ItemName
from penstock.schedule.running_together import Sharing, Synchronization, Waiting, companions
from penstock.stream.evaluation_order import EvaluationItem

TOGETHER_S: Final = 0.25  # that a round of windows which run together is expected to take at most,
TIMES: Final = 3  # or so many times what the first of them takes: costs that were learnt alone are too high
EXECUTORS: Final = "executors"
SPARK: Final = "Spark"
MOST_KNOWN: Final = 100_000  # items whose synopsis is remembered
Items = Mapping[ItemKey, EvaluationItem]


class RunningTogether:
    """Adds to chosen items those that the technique of the moment lets run with them."""

    def __init__(self, answering: Answering, technique: Callable[[], Synchronization]) -> None:
        """Ask for the technique each time: it may be changed while streams run."""
        self.answering, self.technique = answering, technique
        self._known: dict[ItemKey, tuple[Lane | None, Hashable]] = {}  # by item: its lane, and what it shares

    def forget(self) -> None:
        """Forget what items share: lanes may have changed."""
        self._known.clear()

    @property
    def shares(self) -> bool:
        """Tell whether items that became final together run together."""
        return self.technique().sharing != Sharing.NONE

    def chosen(self, first: Sequence[ItemKey], items: Items, updated_us: int) -> list[ItemKey]:
        """Return what runs next: of each synopsis the first that was chosen, and what runs with it.

        ``updated_us`` is when windows last became final. The others of ``first`` wait on.
        """
        groups: dict[Hashable, list[ItemKey]] = {}
        for key, item in items.items():
            groups.setdefault(self.synopsis_of(key, item), []).append(key)
        taken, packed, seconds = list[ItemKey](), set(first), 0.0
        most = max(TOGETHER_S, TIMES * items[first[0]].round_s)
        for key in first:
            group = self.synopsis_of(key, items[key])
            members = groups.pop(group, [])
            for member in self._run_with(key, members, items, updated_us) if members else ():
                fits = member in packed or seconds + items[member].round_s <= most
                if fits or group in (EXECUTORS, SPARK):
                    seconds += items[member].round_s
                    taken.append(member)
        return taken

    def _run_with(self, key: ItemKey, members: list[ItemKey], items: Items, updated_us: int) -> list[ItemKey]:
        """Return an item, and those of its group that the technique lets run with it."""
        group = [Waiting(items[one].final_us - updated_us, None, items[one].priority) for one in members]
        return [key, *(members[place] for place in companions(group, members.index(key), self.technique().sharing))]

    def synopsis_of(self, key: ItemKey, item: EvaluationItem) -> Hashable:
        """Name what an item shares with others that run with it; as long as its lane stays, so does the name."""
        if key is None:
            return None
        lane, known = self.answering.synopsis.lanes.get(key.lane), self._known.get(key)
        if known is None or known[0] is not lane:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            shared = key if lane is None else self._shared(key, item.members[0].definition)
            known = self._known[key] = lane, shared
        return known[1]

    def _shared(self, key: ItemName, definition: Definition) -> Hashable:
        """Name what a query's evaluations share with others.

        A job serves all windows of executors, or all that Spark finishes; a sweep those of a lane and the same states.
        Otherwise equal windows are merged once, which are of one lane, or of the same columns of a bundle, and shape.
        """
        if not self.answering.synopsis.keeps(key.lane):
            return EXECUTORS
        if self.answering.asks_spark(definition):
            return SPARK
        swept = self.answering.sweep_of(key.lane, definition)
        return key.unit, key.shape if swept is None else swept
