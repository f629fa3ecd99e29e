"""Plans a stream's queries: trees share one slicing, groupings share partials, conditions become bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from penstock.evaluate.components.numbers import ROWS, Component
from penstock.evaluate.typed import Condition, Definition
from penstock.model.duration import SECOND
from penstock.model.query import Join
from penstock.model.strategy import STRATEGIES, Strategy
from penstock.model.window import SessionWindow, Window
from penstock.share.slices import SliceManager, Slicing

__all__ = [
    "BITS_PER_WORD",
    "ONE_TREE",
    "SESSIONS",
    "STRATEGIES",
    "Condition",
    "Grouping",
    "LaneKey",
    "Plan",
    "Strategy",
    "Tree",
    "condition_of",
    "is_session",
    "plan_queries",
    "tree_of",
]

SESSIONS: Final = "sessions"  # the name of the tree of sessions, and of their space: granules are all they share
ONE_TREE: Final = "all"  # the name of the tree that all queries are in, and of the space that woven trees share
RETAINED_GRANULE: Final = Window(SECOND, SECOND)  # what retain keeps partials by, for windows to come
MOST_GROWN: Final = 256  # queries put into the trees of the plan before; more are planned anew with all the others
FEW_CONDITIONS: Final = 2  # whose fragments are few
BITS_PER_WORD: Final = 62  # signature bits packed in one signed long


@dataclass(frozen=True, slots=True)
class LaneKey:
    """Names one lane of the synopsis: the same work of the same tree has the same name in every plan."""

    tree: str
    keys: tuple[str, ...]
    condition: Condition
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the hash once."""
        object.__setattr__(self, "_hash", hash((self.tree, self.keys, self.condition)))

    def __reduce__(self) -> tuple[type[LaneKey], tuple[object, ...]]:
        """Travel without the hash, which another process computes otherwise."""
        return LaneKey, (self.tree, self.keys, self.condition)

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash


@dataclass(frozen=True, slots=True)
class Grouping:
    """Partials by one list of keys: every condition under it is a bit of the signature."""

    keys: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    conditions: tuple[Condition, ...]
    components: tuple[Component, ...]
    users: tuple[tuple[int, ...], ...]  # for each component, the conditions that need it

    @property
    def words(self) -> int:
        """Return how many longs the signature takes."""
        return -(-len(self.conditions) // BITS_PER_WORD)

    def grown(self, added: Definition) -> Grouping:
        """Return the grouping with one more query."""
        new = added.typed.condition
        place = self.conditions.index(new) if new in self.conditions else len(self.conditions)
        users = dict(zip(self.components, self.users, strict=True))
        for component in added.typed.components:
            users[component] = tuple(sorted({*users.get(component, ()), place}))
        conditions = self.conditions if place < len(self.conditions) else (*self.conditions, new)
        return Grouping(self.keys, self.key_types, conditions, tuple(users), tuple(users.values()))

    def __str__(self) -> str:
        """Print the grouping as a plan line."""
        by = ", ".join(self.keys) or "()"
        return f"group by {by}: {len(self.conditions)} condition(s), {len(self.components)} partial(s)"


@dataclass(frozen=True, slots=True)
class Tree:
    """Queries that share one slicing."""

    name: str
    slicing: Slicing
    windows: tuple[Window, ...]
    groupings: tuple[Grouping, ...]
    definitions: tuple[Definition, ...]
    space: str  # whose lanes are the same in all trees of it, so that they may move; a tree's own unless woven
    # Lanes are named once a plan: to do it for every window would cost more than answering it.
    lanes: Mapping[LaneKey, tuple[Definition, ...]] = field(compare=False, repr=False)
    lane_of: Mapping[int, LaneKey] = field(compare=False, repr=False)

    @property
    def keyed(self) -> bool:
        """Tell whether some query of the tree has groups."""
        return any(grouping.keys for grouping in self.groupings)

    @property
    def many_partials(self) -> bool:
        """Tell whether a slice has many partials, of groups or of fragments."""
        return self.keyed or sum(len(grouping.conditions) for grouping in self.groupings) > FEW_CONDITIONS

    def manager(self) -> SliceManager:
        """Make the slice manager that finds this tree's edges."""
        return SliceManager(self.windows, self.slicing)

    def only(self, members: tuple[Definition, ...]) -> Tree:
        """Return the tree with some of its queries alone, sliced as the whole one."""
        return Tree(
            self.name,
            self.slicing,
            self.windows,
            _groupings(members),
            members,
            self.space,
            *_lanes(self.space, members),
        )

    def grown(self, added: tuple[Definition, ...]) -> Tree:
        """Return the tree with some more queries, the same as if it were planned anew, but touching only theirs."""
        members, lanes, lane_of = self.definitions + added, dict(self.lanes), dict(self.lane_of)
        by_keys = {grouping.keys: grouping for grouping in self.groupings}
        for one in added:
            key = LaneKey(self.space, one.query.keys, one.typed.condition)
            lanes[key] = (*lanes.get(key, ()), one)
            lane_of[one.id] = key
            before = by_keys.get(one.query.keys)
            by_keys[one.query.keys] = _grouping([one]) if before is None else before.grown(one)
        groupings = tuple(by_keys[keys] for keys in sorted(by_keys, key=_fewest_first))
        return Tree(self.name, self.slicing, _windows(members), groupings, members, self.space, lanes, lane_of)

    def lane_key(self, definition: Definition) -> LaneKey:
        """Name the lane that holds a query's partials."""
        return self.lane_of[definition.id]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one batch of a stream has to compute."""

    version: int
    strategy: Strategy
    joins: tuple[Join, ...]  # each before the ones whose keys read it
    trees: tuple[Tree, ...]
    definitions: tuple[Definition, ...] = field(init=False, compare=False, repr=False)  # of all trees

    def __post_init__(self) -> None:
        """List the queries once: they are asked for often, and may be thousands."""
        object.__setattr__(self, "definitions", tuple(d for tree in self.trees for d in tree.definitions))

    @property
    def woven(self) -> dict[str, str]:
        """Name the trees of queries that are in another one than all begin with, by definition, as a record has it."""
        return {str(d.id): tree.name for tree in self.trees if tree.space != tree.name for d in tree.definitions}

    @property
    def columns(self) -> frozenset[str]:
        """List the stream's columns that some query reads."""
        return frozenset().union(*{d.typed.columns for d in self.definitions})


def condition_of(definition: Definition) -> Condition:
    """Return the condition of a query's rows."""
    return definition.typed.condition


def is_session(definition: Definition) -> bool:
    """Tell whether a query answers sessions, which are planned in a tree of their own."""
    return isinstance(definition.query.window, SessionWindow)


def tree_of(definition: Definition, strategy: Strategy) -> str:
    """Name the tree that a query is put into; of woven ones, the space that all of them share."""
    if is_session(definition):
        return SESSIONS
    if strategy == "fragments":  # of one window: predicates are shared, slices are not (Krishnamurthy et al. 2006, §4)
        return str(definition.query.window)
    return ONE_TREE if strategy.startswith(("shared", "weave")) else f"q{definition.id}"


def plan_queries(
    definitions: Sequence[Definition],
    strategy: Strategy,
    version: int,
    before: Plan | None = None,
    woven: Mapping[int, str] | None = None,
) -> Plan:
    """Put queries into trees: one for all when shared, one for each window by fragments, one for each when not.

    Where the plan before had all but the last of them, only these are put into its trees. ``woven`` names the trees of
    queries that were woven, by definition.
    """
    if woven is not None:
        return _woven(definitions, woven, version, before)
    added = None if before is None or before.strategy != strategy else _added(before, definitions)
    if before is not None and added is not None:
        return _grown(before, added, version)
    cut: Slicing = "paned" if strategy.endswith("paned") else "paired"
    trees = tuple(_tree(name, cut, members) for name, members in _by_tree(definitions, strategy).items())
    return Plan(version, strategy, _distinct_joins(definitions), trees)


def _by_tree(definitions: Sequence[Definition], strategy: Strategy) -> dict[str, tuple[Definition, ...]]:
    """Collect queries by the names of their trees."""
    found: dict[str, list[Definition]] = {}
    for definition in definitions:
        found.setdefault(tree_of(definition, strategy), []).append(definition)
    return {name: tuple(members) for name, members in found.items()}


def _added(before: Plan, definitions: Sequence[Definition]) -> tuple[Definition, ...] | None:
    """Return the queries that follow those of a plan, if all of these are still there and few are new."""
    known = tuple(sorted(before.definitions, key=lambda d: d.id)) if len(before.trees) > 1 else before.definitions
    new = tuple(definitions[len(known) :])
    same = tuple(definitions[: len(known)]) == known
    return new if same and 0 < len(new) <= MOST_GROWN else None


def _grown(before: Plan, added: Sequence[Definition], version: int) -> Plan:
    """Return a plan with more queries."""
    trees = {tree.name: tree for tree in before.trees}
    cut: Slicing = "paned" if before.strategy.endswith("paned") else "paired"
    for name, members in _by_tree(added, before.strategy).items():
        tree = trees.get(name)
        trees[name] = _tree(name, cut, members) if tree is None else tree.grown(members)
    known = {join.id for join in before.joins}
    joins = (*before.joins, *(join for join in _distinct_joins(added) if join.id not in known))
    return Plan(version, before.strategy, joins, tuple(trees.values()))


def _woven(definitions: Sequence[Definition], names: Mapping[int, str], version: int, before: Plan | None) -> Plan:
    """Put queries into the trees that they were woven into; trees that have only grown are kept."""
    known = {} if before is None else {tree.name: tree for tree in before.trees}
    by_tree: dict[str, list[Definition]] = {}
    for definition in definitions:
        name = SESSIONS if is_session(definition) else names[definition.id]
        by_tree.setdefault(name, []).append(definition)
    trees = tuple(_regrown(known.get(name), name, tuple(members)) for name, members in by_tree.items())
    return Plan(version, "weave", _distinct_joins(definitions), trees)


def _regrown(before: Tree | None, name: str, members: tuple[Definition, ...]) -> Tree:
    """Return a woven tree, made of the one before if that has but fewer queries."""
    if before is None or members[: len(before.definitions)] != before.definitions:
        return _tree(name, "paired", members, SESSIONS if name == SESSIONS else ONE_TREE)
    added = members[len(before.definitions) :]
    return before.grown(added) if added else before


def _tree(name: str, slicing: Slicing, members: tuple[Definition, ...], space: str = "") -> Tree:
    """Make one tree of the queries given."""
    lanes = _lanes(space or name, members)
    return Tree(name, slicing, _windows(members), _groupings(members), members, space or name, *lanes)


def _windows(members: Sequence[Definition]) -> tuple[Window, ...]:
    """List the windows whose edges cut a tree's slices."""
    windows = [d.query.window for d in members]
    if gaps := [window.gap_us for window in windows if isinstance(window, SessionWindow)]:
        return (Window(min(gaps), min(gaps)),)  # rows of one granule are less than any gap apart
    if any(d.typed.retain_us for d in members):
        windows.append(RETAINED_GRANULE)
    return tuple(windows)


def _lanes(
    tree: str, members: Sequence[Definition]
) -> tuple[dict[LaneKey, tuple[Definition, ...]], dict[int, LaneKey]]:
    """Name the lanes of a tree's queries, and for each query its own."""
    rows: dict[tuple[tuple[str, ...], Condition], list[Definition]] = {}
    for one in members:
        rows.setdefault((one.query.keys, one.typed.condition), []).append(one)
    lanes = {LaneKey(tree, *key): tuple(found) for key, found in rows.items()}
    return lanes, {one.id: key for key, found in lanes.items() for one in found}


def _fewest_first(keys: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Order groupings: the first one, with the fewest keys, also carries the rows that no query takes."""
    return len(keys), keys


def _groupings(members: Sequence[Definition]) -> tuple[Grouping, ...]:
    """Collect queries by their keys."""
    by_keys: dict[tuple[str, ...], list[Definition]] = {}
    for definition in members:
        by_keys.setdefault(definition.query.keys, []).append(definition)
    return tuple(_grouping(by_keys[keys]) for keys in sorted(by_keys, key=_fewest_first))


def _grouping(members: Sequence[Definition]) -> Grouping:
    """Collect the conditions and components of queries with the same keys."""
    position: dict[Condition, int] = {}
    asked: dict[tuple[int, tuple[Component, ...]], None] = {}  # most queries ask for what others ask for too
    for definition in members:
        place = position.setdefault(definition.typed.condition, len(position))
        asked[place, definition.typed.components] = None
    users: dict[Component, set[int]] = {ROWS: set(range(len(position)))}
    for place, components in asked:
        for component in components:
            users.setdefault(component, set()).add(place)
    first = members[0]
    return Grouping(
        first.query.keys,
        first.typed.key_types,
        tuple(position),
        tuple(users),
        tuple(tuple(sorted(needed)) for needed in users.values()),
    )


def _distinct_joins(definitions: Iterable[Definition]) -> tuple[Join, ...]:
    """List every join once; a query's own order already puts a join after those its keys read."""
    found: dict[str, Join] = {}
    for joins in dict.fromkeys(definition.query.joins for definition in definitions):
        for join in joins:
            found.setdefault(join.id, join)
    return tuple(found.values())
