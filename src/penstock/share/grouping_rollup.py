"""Chooses which groupings are computed from the partials of finer ones.

Partials by (symbol, exchange) can be put together to partials by symbol, so rows need not be aggregated for both. A
grouping that feeds several may be one that no query asks for, a phantom (Zhang et al. 2005, as Golab, Bijay and Özsu
2006, §2.1 and Guirguis et al. 2011, §5.3 take it up): by (symbol, exchange) for queries by symbol and by exchange.
Whether it pays depends on the data: with as many partials as rows, feeding would only move the work to the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from penstock.evaluate.components.numbers import Component
from penstock.share.plan import Condition, Grouping

Keys: TypeAlias = tuple[str, ...]
Feeders: TypeAlias = Mapping[Keys, tuple[Keys, ...]]  # keys of a feeder → keys of the groupings that it feeds
Feeding: TypeAlias = Mapping[str, Feeders]  # by tree

MOST_CANDIDATES: Final = 24  # groupings whose partials are estimated
COPY_US: Final = 0.3  # to copy a row for one more grouping and aggregate it there
SHIP_US: Final = 2.0  # to send a partial to the driver, write it down and read it
WORTH_A_CHANGE: Final = 1.2  # times the cost of the best choice that an older one may have
ADD_US: Final = 0.2  # to add a partial to the lanes of a grouping


@dataclass(frozen=True, slots=True)
class RolledUp:
    """A grouping that a member of the job feeds: where its keys and conditions stand among the member's."""

    grouping: Grouping
    keys: tuple[int, ...]
    conditions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a batch holds: its rows, the partials of each grouping that may be made, the groups of those asked for."""

    rows: float
    partials: Mapping[Keys, float]
    groups: Mapping[Keys, float] = field(default_factory=dict)


def candidates(groupings: Iterable[Grouping]) -> list[Keys]:
    """List the groupings that may feed others: those asked for, and unions of them, those of few keys first."""
    asked = [grouping.keys for grouping in groupings]
    known: dict[frozenset[str], Keys] = {}
    for keys in asked:
        known.setdefault(frozenset(keys), keys)  # in whatever order queries name them
    fresh = list(known)
    while fresh:
        unions = {one | other for one in fresh for other in known} - known.keys()
        fresh = sorted(unions, key=lambda union: (len(union), sorted(union)))[: MOST_CANDIDATES - len(known)]
        known |= {union: _in_order(union, asked) for union in fresh}
    return list(known.values())


def _in_order(union: frozenset[str], asked: Sequence[Keys]) -> Keys:
    """Order the keys of a union as queries name them."""
    return tuple(dict.fromkeys(key for keys in asked if union.issuperset(keys) for key in keys))


def choose_feeders(asked: Sequence[Keys], estimate: Estimate, before: Feeders | None = None) -> Feeders:
    """Choose what is made from rows, adding or dropping one grouping at a time while that lowers the cost.

    Only those that feed others are named: all other groupings are made from rows themselves. What was chosen
    ``before`` stays unless something is clearly better: a change makes Spark generate the job's code anew.
    """
    made = frozenset(keys for keys in asked if keys in estimate.partials)
    cost = _cost(made, asked, estimate)
    if cost == float("inf"):  # some grouping was not estimated
        return {}
    while True:
        moves = [made | {keys} for keys in estimate.partials if keys not in made]
        moves += [made - {keys} for keys in made]
        moves += [(made | {new}) - frozenset(k for k in made if set(k) <= set(new)) for new in estimate.partials]
        moves += [(made | {new}) - frozenset(k for k in made if set(k) < set(new)) for new in estimate.partials]
        best = min(moves, key=lambda move: (_cost(move, asked, estimate), sorted(move)))
        if (found := _cost(best, asked, estimate)) >= cost:
            break
        made, cost = best, found
    if before is not None and _cost(_made(asked, before), asked, estimate) <= WORTH_A_CHANGE * cost:
        return before
    fed: dict[Keys, list[Keys]] = {}
    for keys in asked:
        fed.setdefault(_feeder(keys, made, estimate) or keys, []).append(keys)
    return {feeder: tuple(some) for feeder, some in fed.items() if some != [feeder]}


def _made(asked: Sequence[Keys], feeders: Feeders) -> frozenset[Keys]:
    """List what is made from rows where some groupings feed others."""
    fed = {keys for some in feeders.values() for keys in some}
    return frozenset(feeders) | frozenset(keys for keys in asked if keys not in fed)


def _cost(made: frozenset[Keys], asked: Sequence[Keys], estimate: Estimate) -> float:
    """Return the microseconds of a batch if some groupings are made from rows and the others fed by them."""
    sizes = [estimate.partials.get(keys, float("inf")) for keys in made]  # what was not estimated is not made
    cost = sum(estimate.rows * COPY_US + partials * SHIP_US for partials in sizes)
    for keys in asked:
        feeder = _feeder(keys, made, estimate)
        cost += float("inf") if feeder is None else estimate.partials[feeder] * ADD_US
    return cost


def _feeder(keys: Keys, made: Iterable[Keys], estimate: Estimate) -> Keys | None:
    """Choose the smallest grouping that has all keys."""
    able = [one for one in made if set(keys) <= set(one) and one in estimate.partials]
    return min(able, key=lambda one: (estimate.partials[one], one), default=None)


def fed_members(groupings: Sequence[Grouping], feeders: Feeders) -> list[tuple[Grouping, tuple[RolledUp, ...]]]:
    """Put groupings under their feeders; what a plan no longer asks for is left out, what is alone stays as it is."""
    by_keys = {grouping.keys: grouping for grouping in groupings}
    found: list[tuple[Grouping, tuple[RolledUp, ...]]] = []
    under: set[Keys] = set()
    for keys, fed in feeders.items():
        members = [by_keys[one] for one in fed if one in by_keys and set(one) <= set(keys)]
        if len(members) > 1:
            found.append(_feeding(keys, members))
            under |= {member.grouping.keys for member in found[-1][1]}
    alone = [(grouping, (itself(grouping),)) for grouping in groupings if grouping.keys not in under]
    return sorted([*alone, *found], key=lambda pair: (len(pair[0].keys), pair[0].keys))


def itself(grouping: Grouping) -> RolledUp:
    """Let a grouping feed itself alone."""
    return RolledUp(grouping, tuple(range(len(grouping.keys))), tuple(range(len(grouping.conditions))))


def _feeding(keys: Keys, members: Sequence[Grouping]) -> tuple[Grouping, tuple[RolledUp, ...]]:
    """Make the grouping that feeds some others: all their conditions and components, by all their keys."""
    types = {key: type_ for one in members for key, type_ in zip(one.keys, one.key_types, strict=True)}
    own = tuple(key for key in keys if key in types)
    place: dict[Condition, int] = {}
    for one in members:
        for condition in one.conditions:
            place.setdefault(condition, len(place))
    users: dict[Component, set[int]] = {}
    for one in members:
        for component, used in zip(one.components, one.users, strict=True):
            users.setdefault(component, set()).update(place[one.conditions[i]] for i in used)
    grouping = Grouping(
        own,
        tuple(types[key] for key in own),
        tuple(place),
        tuple(users),
        tuple(tuple(sorted(used)) for used in users.values()),
    )
    fed = [
        RolledUp(one, tuple(own.index(key) for key in one.keys), tuple(place[c] for c in one.conditions))
        for one in members
    ]
    return grouping, tuple(fed)


def to_record(feeding: Feeding) -> dict[str, list[dict[str, Any]]]:
    """Write who feeds whom as JSON values."""
    return {
        tree: [{"keys": list(keys), "feeds": [list(one) for one in fed]} for keys, fed in feeders.items()]
        for tree, feeders in feeding.items()
        if feeders
    }


def from_record(record: Mapping[str, Sequence[Mapping[str, Any]]]) -> Feeding:
    """Read who feeds whom back."""
    return {
        tree: {tuple(one["keys"]): tuple(tuple(keys) for keys in one["feeds"]) for one in feeders}
        for tree, feeders in record.items()
    }
