"""Queries of a stream and what it brings come in; the names of the trees they are woven into go out.

Queries over the same rows under the same keys read the same partials and always share a tree: with the kernel's
prefixes two such trees never cost less than one. So a lane is in one tree at a time, and can move to another with all
that it holds. Weaving from scratch is done by another thread; its plan is taken over between two batches.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from penstock.errors import StateError
from penstock.evaluate.typed import Condition, Definition
from penstock.model.strategy import Strategy
from penstock.share.weave.costs import Load, MeasuredCosts, Rates
from penstock.share.weave.loom import Loom
from penstock.share.weave.strands import Merging, Strand
from penstock.store.synopsis import Synopsis
from penstock.stream.computing import Computing
from penstock.stream.progress import Progress

ASSUMED_RATE: Final = 1_000.0  # rows a second, before any came
ASSUMED_GROUPS: Final = 100.0
SPARE_GROUPINGS: Final = 8  # that may come before all is woven anew
DRIFT: Final = 2.0  # times by which rate or groups change before the plan is looked at again
LOOKED_EVERY: Final = 8  # batches

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a stream was seen to bring: rows a second, groups by their keys, fragments a condition."""

    rows_per_second: float | None = None
    groups: Mapping[Keys, int] = field(default_factory=dict)
    fragments_per_condition: float = 1.0

    def drifted(self, since: Seen) -> bool:
        """Tell whether the stream has become another one since it was looked at last."""
        pairs = [(self.rows_per_second or ASSUMED_RATE, since.rows_per_second or ASSUMED_RATE)]
        pairs += [(count, since.groups.get(keys, ASSUMED_GROUPS)) for keys, count in self.groups.items() if keys]
        return any(max(a, b) > DRIFT * max(1.0, min(a, b)) for a, b in pairs)


class Weaving:
    """Keeps the trees of one stream."""

    def __init__(
        self, strategy: Strategy, rates: Rates, progress: Progress, synopsis: Synopsis, computing: Computing
    ) -> None:
        """Weave, if that is the strategy, by the engine's rates and by what the stream is seen to bring."""
        self.woven, self.rates = strategy == "weave", rates
        self.progress, self.synopsis, self.computing = progress, synopsis, computing
        self.trees: dict[int, str] = {}  # definition → tree
        self._definitions: dict[int, Definition] = {}
        self._keys: dict[Keys, int] = {}
        self._conditions: dict[Condition, int] = {}
        self._loom: Loom[int] | None = None
        self._known = Seen()
        self._aside: threading.Thread | None = None
        self._fresh: tuple[Loom[int], Seen, dict[Keys, int], dict[Condition, int]] | None = None
        self._batches = 0

    @property
    def ready(self) -> bool:
        """Tell whether a plan woven from scratch waits to be taken over."""
        return self._fresh is not None

    def trees_of(self, definitions: Sequence[Definition], committed: Mapping[str, str] | None) -> dict[int, str] | None:
        """Return the tree of every query, as a commit had it or as it is woven now; None: trees are not woven."""
        if not self.woven:
            return None
        if committed is None:
            return self.assign(definitions)
        self.trees = {int(number): tree for number, tree in committed.items()}
        if any(d.id not in self.trees for d in definitions):
            what = "what the state folder holds was not made by weaving"
            raise StateError(what, hint="Use the strategy that it was begun with, or start with an empty folder.")
        return self.trees

    def assign(self, definitions: Sequence[Definition]) -> dict[int, str]:
        """Weave what is new into the trees, and let go what is gone; a waiting plan is taken over."""
        self._definitions = {d.id: d for d in definitions}
        if self._fresh is not None:
            self._loom, self._known, self._keys, self._conditions = self._fresh
            self._fresh = None
        loom = self._loom
        gone = [] if loom is None else [number for number in loom.strands if number not in self._definitions]
        new = [d for d in definitions if loom is None or d.id not in loom.strands]
        if loom is None or len(new) > len(loom.strands) - len(gone) or not self._numbered(new):
            self._loom = self._woven()
        else:
            for number in gone:
                loom.drop(number)
            for definition in new:
                loom.add(definition.id, self._strand(definition))
        self.trees = named(() if self._loom is None else self._loom.trees, self.trees)
        return self.trees

    def restore(self, definitions: Sequence[Definition]) -> None:
        """Go on with the trees of the last commit."""
        if not self.woven:
            return
        self._definitions = {d.id: d for d in definitions}
        self._loom = self._empty()
        self._loom.strands = {d.id: self._strand(d) for d in definitions}
        by_tree: dict[str, list[int]] = {}
        for definition in definitions:
            by_tree.setdefault(self.trees[definition.id], []).append(definition.id)
        self._loom.lay_out(list(by_tree.values()))

    def look(self) -> None:
        """After a batch, weave anew aside if the plan has strayed or the stream has become another one."""
        self._batches += 1
        busy = self._fresh is not None or (self._aside is not None and self._aside.is_alive())
        if self._loom is None or busy or not self._loom.strands or not self.woven:
            return
        often = self._batches <= 2 or self._batches % LOOKED_EVERY == 0
        if self._loom.owing or (often and self._seen(self._keys).drifted(self._known)):
            self._aside = threading.Thread(target=self._weave_aside, name="weaving", daemon=True)
            self._aside.start()

    def wait(self) -> None:
        """Wait until what is woven aside is there."""
        if self._aside is not None:
            self._aside.join()

    def _weave_aside(self) -> None:
        """Weave all queries from scratch; if that pays, leave the plan to be taken over."""
        other = Weaving("weave", self.rates, self.progress, self.synopsis, self.computing)
        other._definitions = dict(self._definitions)
        loom, before = other._woven(), self._loom
        assert before is not None
        loom.curve = before.curve
        loom.curve.note(len(loom.strands), loom.cost)
        self._fresh = loom, other._known, other._keys, other._conditions

    def _woven(self) -> Loom[int]:
        """Weave all queries from scratch, with what the stream brings now."""
        loom = self._empty()
        loom.strands = {d.id: self._strand(d) for d in self._definitions.values()}
        if loom.strands:
            loom.reconstruct()
        return loom

    def _empty(self) -> Loom[int]:
        """Number keys and conditions anew, and make a plan without queries."""
        self._keys, self._conditions = {}, {}
        for definition in self._definitions.values():
            self._strand(definition)
        self._known = self._seen(self._keys)
        return Loom(MeasuredCosts(self.rates, self._load()), bound=True)

    def _seen(self, groupings: Iterable[Keys]) -> Seen:
        """Tell what the stream brings: rows a second, groups, and fragments a condition."""
        groups = {key.keys: len(self.synopsis.groups(key)) for key in list(self.synopsis.lanes)}
        conditions = len({(d.query.keys, d.typed.condition) for d in self._definitions.values()})
        sent = self.computing.sent
        fragments = max(0.0, sent.signatures - 1) / conditions if sent is not None and conditions > 1 else 1.0
        counted = {keys: groups[keys] for keys in groupings if groups.get(keys)}
        return Seen(self.progress.rate(), counted, max(0.1, fragments))

    def _load(self) -> Load:
        """Put what was seen in the order of groupings; some that may come are assumed."""
        groups = [1.0 if not keys else float(self._known.groups.get(keys) or ASSUMED_GROUPS) for keys in self._keys]
        groups += [ASSUMED_GROUPS] * SPARE_GROUPINGS
        return Load(self._known.rows_per_second or ASSUMED_RATE, tuple(groups), self._known.fragments_per_condition)

    def _numbered(self, new: Iterable[Definition]) -> bool:
        """Tell whether there are numbers for the keys of new queries."""
        coming = {d.query.keys for d in new} - self._keys.keys()
        limit = 0 if self._loom is None else len(_groups_of(self._loom))
        return len(self._keys) + len(coming) <= limit

    def _strand(self, definition: Definition) -> Strand:
        """Return a query as the weaver sees it."""
        keys, condition = definition.query.keys, definition.typed.condition
        grouping = self._keys.setdefault(keys, len(self._keys))
        number = self._conditions.setdefault(condition, len(self._conditions))
        return Strand(definition.query.window, grouping, number, self._merging(definition))

    def _merging(self, definition: Definition) -> Merging:
        """Tell how the kernel puts a query's windows together."""
        if self.synopsis.kernel == "scan":
            return "scan"
        return "prefix" if all(c.invertible for c in definition.typed.components) else "tree"


def _groups_of(loom: Loom[int]) -> tuple[float, ...]:
    """Return the groups of groupings that a loom weighs by."""
    assert isinstance(loom.costs, MeasuredCosts)
    return loom.costs.load.groups


def named(trees: Iterable[Sequence[int]], before: Mapping[int, str]) -> dict[int, str]:
    """Name trees: as the one that most of their queries are in already, or by their first query."""
    found: dict[int, str] = {}
    taken: set[str] = set()
    for tree in sorted(trees, key=lambda t: (-len(t), t)):
        known = Counter(before[number] for number in tree if number in before)
        wanted = [name for name, _ in sorted(known.items(), key=lambda one: (-one[1], one[0]))]
        free = (name for name in chain(wanted, _names(min(tree))) if _is_free(name, tree, before))
        name = next(name for name in free if name not in taken)
        taken.add(name)
        found |= dict.fromkeys(tree, name)
    return found


def _is_free(name: str, tree: Sequence[int], before: Mapping[int, str]) -> bool:
    """Tell whether a name is a tree's own, or nobody's: what is filed under it must not be taken for another's."""
    holders = [number for number, known in before.items() if known == name]
    return not holders or any(number in holders for number in tree)


def _names(first: int) -> Iterator[str]:
    """Make up names from a query's number, without end."""
    yield f"t{first}"
    yield from (f"t{first}.{number}" for number in count(1))
