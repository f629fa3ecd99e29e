"""Holds the windows of a stream that are final and not answered yet.

In a stream that answers each batch before the next, it is empty between two batches. In one whose answers may lag
behind, it is what lags.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.answering import Answering
from penstock.kernel.pending import ItemKey, Pending
from penstock.language.options import is_fresh
from penstock.model.instants import Clock
from penstock.schedule.policy import Policy
from penstock.schedule.running_together import Synchronization
from penstock.stream.evaluation_order import EvaluationItem, EvaluationOrder
from penstock.stream.query_windows import QueryWindows
from penstock.stream.running_together import RunningTogether


class UnansweredWindows:
    """Final windows, by the item of work that they belong to, until they are taken to be answered."""

    def __init__(
        self,
        answering: Answering,
        policy: Callable[[], Policy],
        technique: Callable[[], Synchronization],
        clock: Clock,
        windows: QueryWindows,
    ) -> None:
        """Begin with none; ``windows`` is told of what is not answered.

        The policy of the moment orders it, and the technique of the moment says what runs together.
        """
        self.order, self.windows = EvaluationOrder(answering, policy, clock), windows
        self.together = RunningTogether(answering, technique)
        self.items: dict[ItemKey, EvaluationItem] = {}
        self.added_us = 0  # when windows last became final, by the clock

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self.items)

    @property
    def seconds(self) -> float:
        """Estimate how long it takes to answer all."""
        return sum(item.seconds for item in self.items.values())

    @property
    def runs(self) -> int:
        """Count the runs of window ends."""
        return sum(len(one.ends.firsts) for item in self.items.values() for one in item.members)

    def pending(self) -> list[Pending]:
        """List all windows, as a commit records them."""
        return [one for item in self.items.values() for one in item.members]

    def add(self, due: Sequence[Pending]) -> None:
        """Take windows that became final just now; those that are quickly answered are one item while nothing waits."""
        if not due:
            return
        now_us, order = self.order.clock(), self.order
        self.added_us = now_us
        known = [order.queries.of(one) for one in due]
        whole = None if self.items else order.item(due, now_us, known=known)
        if whole is not None and (whole.is_dated or self.together.shares) and order.is_quick(whole):
            self.items[None] = whole
        else:
            self._split()
            for key, (members, theirs) in order.queries.together(due, known).items():
                if (there := self.items.get(key)) is None:
                    self.items[key] = order.item(members, now_us, known=theirs)
                else:
                    self.items[key] = order.joined(there, members)
        self._note_added(due)

    def _split(self) -> None:
        """Put windows that were one item into items of their own, as later ones of their queries join them."""
        whole = self.items.get(None)
        if whole is None or whole.is_dated:
            return
        del self.items[None]
        known = [self.order.queries.of(one) for one in whole.members]
        for key, (members, theirs) in self.order.queries.together(whole.members, known).items():
            self.items[key] = self.order.item(members, whole.final_us, known=theirs)

    def skip_superseded(self) -> int:
        """Skip at once what a later window supersedes, of queries that want the freshest answer only; count it."""
        fresh = [key for key, item in self.items.items() if item.fresh]
        last = {one.definition.id: one for item in self.items.values() for one in item.members}
        found = 0
        for key in fresh:
            item, kept = self.items[key], list[Pending]()
            for one in item.members:
                newest = one if not is_fresh(one.definition.query) else _newest(one, last[one.definition.id])
                skipped = len(one.ends) - (0 if newest is None else len(newest.ends))
                if skipped:
                    number = one.definition.id
                    self.windows.skipped[number] = self.windows.skipped.get(number, 0) + skipped
                kept += [] if newest is None else [newest]
                found += skipped
            if not kept:
                del self.items[key]
            elif sum(len(one.ends) for one in kept) < sum(len(one.ends) for one in item.members):
                self.items[key] = self.order.item(kept, item.final_us, item.due_us)
        if found:
            self.windows.unanswered = self._firsts()
        return found

    def take(self, keys: Sequence[ItemKey] | None = None, *, all_follow: bool = False) -> list[Pending]:
        """Take the windows that are answered next, at least those of one item; ``keys`` are items in their order.

        Where all others follow before anything else comes, groups grow.
        """
        known = [key for key in (self.items if keys is None else keys) if key in self.items]
        if not known:
            return []
        waited_s = self.order.waited_s(map(self.items.__getitem__, known)) if all_follow else 0.0
        if known == [None]:  # all lanes at once: everybody has a turn
            self.order.begin_turns()
        elif keys is None:
            known = [known[place] for place in self.order.first([self.items[key] for key in known], (), waited_s)]
        chosen = known if known == [None] else self.together.chosen(known, self.items, self.added_us)
        items, taken, left = [self.items[key] for key in chosen], list[Pending](), list[Pending]()
        upto_us = self.order.cut_at(items, waited_s)
        for key, item in zip(chosen, items, strict=True):
            now, later = self.order.cut(item, upto_us)
            taken += () if now is None else now.members
            if later is None:
                del self.items[key]
            else:
                self.items[key] = later
                left += later.members
        self._note_taken(taken, left, apart=not any(item.is_dated for item in items))
        return self._without_superseded(taken) if any(item.fresh for item in items) else taken

    def take_after(self, time_us: int) -> list[Pending]:
        """Take all windows of queries that have one which ends after a time: rows of that time are about to come."""
        found, apart = list[Pending](), True
        for key, item in list(self.items.items()):
            if any(one.ends.last_us > time_us for one in item.members):
                found += self.items.pop(key).members
                apart = apart and not item.is_dated
        self._note_taken(found, (), apart=apart)
        return self._without_superseded(found)

    def take_all(self) -> list[Pending]:
        """Take all windows."""
        return self.take_after(-(1 << 62))

    def _note_added(self, added: Sequence[Pending]) -> None:
        """Tell which end of each query is the first that is not answered, when later ones wait too."""
        firsts = self.windows.unanswered
        for one in added:
            firsts.setdefault(one.definition.id, one.ends.first_us)

    def _note_taken(self, taken: Iterable[Pending], left: Iterable[Pending], *, apart: bool = True) -> None:
        """Tell the same when windows were taken; ``left`` are the later ones of their items, which wait on.

        ``apart``: nothing else of their queries waits, as all windows of a query are in one item.
        """
        if not self.items:
            self.windows.unanswered = {}
        elif None in self.items or not apart:
            self.windows.unanswered = self._firsts()
        else:
            firsts = self.windows.unanswered
            for one in taken:
                firsts.pop(one.definition.id, None)
            for one in left:
                firsts.setdefault(one.definition.id, one.ends.first_us)

    def _firsts(self) -> dict[int, int]:
        """Return the first end of each query that waits."""
        firsts: dict[int, int] = {}
        for item in self.items.values():
            for one in item.members:
                number, first = one.definition.id, one.ends.first_us
                firsts[number] = min(first, firsts.get(number, first))
        return firsts

    def is_left(self, number: int) -> bool:
        """Tell whether a query has windows here."""
        return number in self.windows.unanswered

    def _has_gone_on(self, definition: Definition) -> bool:
        """Tell whether a query has later windows at another period."""
        return definition.handover is not None and self.windows.has_gone_on(definition.id)

    def _without_superseded(self, due: Sequence[Pending]) -> list[Pending]:
        """Skip the windows that a later one supersedes, of queries that want the freshest answer only."""
        if not any(is_fresh(one.definition.query) for one in due):
            return list(due)
        last = {one.definition.id: place for place, one in enumerate(due)}
        kept: list[Pending] = []
        for place, one in enumerate(due):
            number = one.definition.id
            if not is_fresh(one.definition.query):
                kept.append(one)
                continue
            newest = place == last[number] and not self.is_left(number) and not self._has_gone_on(one.definition)
            skipped = len(one.ends) - newest
            if skipped:
                self.windows.skipped[number] = self.windows.skipped.get(number, 0) + skipped
            if newest:
                kept.append(_last_of(one))
        return kept


class PastWindows(UnansweredWindows):
    """Windows of backfills, until they are taken to be answered: they come after everything live.

    They are apart from the windows that batches made final, so that neither a change of the plan nor the next batch has
    to wait until all of the past is answered. Like those, they never change: before a late row enters one of them, it
    is answered.
    """

    def __init__(self, live: UnansweredWindows) -> None:
        """Begin with none; costs are those that ``live`` windows have taught."""
        self.order, self.together, self.windows = live.order, live.together, live.windows
        self.items, self.added_us = {}, 0
        self.listed: dict[int, int] = {}  # windows of each query, since it has some here

    def _note_added(self, added: Sequence[Pending]) -> None:
        """Tell which window of each query is the first one of the past that is not answered."""
        self._note()

    def _note_taken(self, taken: Iterable[Pending], left: Iterable[Pending], *, apart: bool = True) -> None:
        """Tell the same."""
        self._note()

    def _note(self) -> None:
        """Tell the same, from all that waits: a plan may have changed since some of it came."""
        self.windows.past = firsts = self._firsts()
        self.listed = {number: count for number, count in self.listed.items() if number in firsts}

    def is_left(self, number: int) -> bool:
        """Tell whether a query has windows here."""
        return number in self.windows.past

    def _has_gone_on(self, definition: Definition) -> bool:
        """Say that no window of the past is superseded by one that ends later: it would have been answered before."""
        return False

    def enlist(self, due: Sequence[Pending]) -> None:
        """Take windows of the past."""
        for one in due:
            self.listed[one.definition.id] = self.listed.get(one.definition.id, 0) + len(one.ends)
        self.add(due)

    def left(self) -> dict[int, int]:
        """Count the windows of each query that are not answered."""
        found: dict[int, int] = {}
        for one in [one for item in list(self.items.values()) for one in item.members]:  # any thread may ask
            found[one.definition.id] = found.get(one.definition.id, 0) + len(one.ends)
        return found

    def take_tails(self, time_us: int) -> list[Pending]:
        """Take the windows that end after a time: rows of that time are about to come."""
        taken: list[Pending] = []
        for key, item in list(self.items.items()):
            kept: list[Pending] = []
            for one in item.members:
                whole = is_fresh(one.definition.query)  # its last window alone is answered
                taken += [part for part in [one if whole else one.after(time_us)] if len(part.ends)]
                kept += [] if whole else [part for part in [one.upto(time_us)] if len(part.ends)]
            self._keep(key, kept)
        self._note()
        return self._without_superseded(taken)

    def forget(self, current: Collection[int]) -> None:
        """Forget the windows of queries that are gone."""
        for key, item in list(self.items.items()):
            self._keep(key, [one for one in item.members if one.definition.id in current])
        self._note()

    def _keep(self, key: ItemKey, members: Sequence[Pending]) -> None:
        """Let an item have these windows alone."""
        item = self.items.pop(key)
        if members:
            self.items[key] = self.order.item(members, item.final_us, item.due_us)


def _newest(one: Pending, last: Pending) -> Pending | None:
    """Return the last window of a run, if no later run of its query waits."""
    return _last_of(one) if one is last else None


def _last_of(one: Pending) -> Pending:
    """Keep the last window alone."""
    end = int(one.ends.lasts[-1])
    ends = EndRuns.between(end, end, one.ends.slide_us)
    return Pending(one.definition, one.lane, ends, one.until_us, final_us=one.final_us)
