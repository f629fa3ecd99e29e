"""Numbers the groupings, signature words and key columns of a plan's one Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.evaluate.components.numbers import ROWS, Component
from penstock.language.binding.columns_read import names_in
from penstock.language.grammar.literals import quote
from penstock.language.options import sheds
from penstock.model.sampling import TWINS, WEIGHT
from penstock.model.schema import Column
from penstock.model.window import Window
from penstock.share.grouping_rollup import Feeding, RolledUp, fed_members
from penstock.share.locate import ByArithmetic, ByDivision, BySearch, Locating, choose_locating
from penstock.share.plan import Grouping, Plan
from penstock.share.slices import Progression, SliceManager


@dataclass(frozen=True, slots=True)
class Member:
    """One grouping of one tree, as the job knows it."""

    number: int
    tree: int
    grouping: Grouping
    slots: tuple[int, ...]  # where each key stands among the shared key columns
    carrier: bool  # also keeps the rows that no query takes: they count, and show that the stream is not empty
    signed: bool  # False: every valid row is taken, no signature needed
    feeds: tuple[RolledUp, ...]  # the groupings that queries ask for: itself, or coarser ones

    @property
    def sheds(self) -> bool:
        """Tell whether none of its conditions takes a row that is shed."""
        return all(WEIGHT in names_in(condition.where or "") for condition in self.grouping.conditions)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the one job of a plan writes its columns."""

    plan: Plan
    time: str
    members: tuple[Member, ...]
    key_types: tuple[pa.DataType, ...]
    components: tuple[Component, ...]
    managers: tuple[SliceManager, ...]
    locating: tuple[Locating, ...]
    attempts: frozenset[int] = field(default_factory=frozenset)  # queries whose expressions are evaluated apart
    feeding: Feeding = field(default_factory=dict)  # which groupings are fed by finer ones
    spread: frozenset[tuple[str, tuple[str, ...]]] = frozenset()  # spaces and keys of groupings that the executors keep
    revising: tuple[tuple[Window, int], ...] = ()  # windows whose answers late rows revise, and for how long
    doubtful: tuple[Column, ...] = ()  # columns of the stream that are computed, and may fail on a row

    @property
    def unwatched(self) -> frozenset[str]:
        """Return the doubtful columns that a query reads without attempting it; a row whose time fails is nobody's."""
        plain = [d.typed.columns for d in self.plan.definitions if d.id not in self.attempts] if self.doubtful else []
        return frozenset(c.name for c in self.doubtful if c.name != self.time and any(c.name in read for read in plain))

    @property
    def shed(self) -> str:
        """Write whether queries that shed load do not look at a row."""
        return f"{quote(WEIGHT)} = 0"

    @property
    def sign(self) -> str:
        """Write 1 or −1 of a row that a sample keeps, by hash, and 0 of the others."""
        return f"IF({quote(WEIGHT)} > 0L, cast(signum({quote(TWINS)}) as bigint), 0L)"

    @property
    def samples(self) -> bool:
        """Tell whether some query answers from the weights of rows."""
        return WEIGHT in self.plan.columns and any(sheds(d.query) for d in self.plan.definitions)

    @property
    def direct(self) -> bool:
        """Tell whether the job is one plain aggregation: no joins, signatures, copies of rows or attempts."""
        simple = not self.plan.joins and not any(m.signed for m in self.members) and len(self.members) == 1
        return simple and not self.attempts

    @property
    def marks_late(self) -> Progression | None:
        """Return the granule whose labels also tell late rows, by one microsecond more; None: they are counted apart.

        Two aggregates less for every row: late rows, and the first time, which is as good as its granule's start.
        """
        way = self.locating[0] if self.direct and not self.revising else None
        return way.granule if isinstance(way, ByDivision) and way.granule.step > 1 else None

    def listed(self, edges: Mapping[int, Sequence[int]]) -> Layout:
        """Let rows compute their slices in searched trees whose edges are too many to be listed for a batch."""
        ways = tuple(
            ByArithmetic(tuple(manager.progressions)) if isinstance(way, BySearch) and tree not in edges else way
            for tree, (way, manager) in enumerate(zip(self.locating, self.managers, strict=True))
        )
        return self if ways == self.locating else replace(self, locating=ways)

    @property
    def words(self) -> int:
        """Return how many signature columns the job has."""
        return max((m.grouping.words for m in self.members if m.signed), default=0)


def lay_out(plan: Plan, time: str, feeding: Feeding | None = None, doubtful: tuple[Column, ...] = ()) -> Layout:
    """Number the groupings and give their keys shared columns by type; ``feeding`` says which are made from others."""
    members: list[Member] = []
    slots: list[pa.DataType] = []
    for tree_number, tree in enumerate(plan.trees):
        fed = fed_members(tree.groupings, (feeding or {}).get(tree.name, {}))
        for position, (grouping, feeds) in enumerate(fed):
            trivial = not plan.joins and all(c.where is None for c in grouping.conditions)
            taken = _slots(grouping, slots)
            members.append(Member(len(members), tree_number, grouping, taken, position == 0, not trivial, feeds))
    components = dict.fromkeys([ROWS, *(c for m in members for c in m.grouping.components)])
    managers = tuple(tree.manager() for tree in plan.trees)
    ways = zip(managers, plan.trees, strict=True)
    locating = tuple(choose_locating(m, many=t.many_partials, trees=len(managers)) for m, t in ways)
    revising = tuple(sorted({(d.query.window, d.typed.revise_us) for d in plan.definitions if d.typed.revise_us}))
    numbered = tuple(members), tuple(slots), tuple(components)
    whole = Layout(plan, time, *numbered, managers, locating, feeding=feeding or {}, revising=revising)
    return replace(whole, doubtful=doubtful) if doubtful else whole


def _slots(grouping: Grouping, slots: list[pa.DataType]) -> tuple[int, ...]:
    """Take the first free shared column of each key's type, adding one where none is left."""
    taken: list[int] = []
    for key_type in grouping.key_types:
        free = next((i for i, t in enumerate(slots) if t == key_type and i not in taken), None)
        if free is None:
            slots.append(key_type)
            free = len(slots) - 1
        taken.append(free)
    return tuple(taken)
