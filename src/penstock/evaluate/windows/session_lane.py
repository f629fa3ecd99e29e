"""Keeps the sessions of one condition of one grouping, of every gap that queries ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from penstock.evaluate.components.component import Component, Values
from penstock.evaluate.components.states import bytes_of
from penstock.evaluate.windows.partials import Distinct, Merged, Partials, concatenate
from penstock.evaluate.windows.sessions import OpenSessions
from penstock.model.arrays import Int64Array


class SessionStore(NamedTuple):
    """Names sessions that queries of one condition and grouping share: they have one gap, and begin together."""

    gap_us: int
    since_us: int | None  # when sessions begin that are whole; None: from the first row on


class SessionLane:
    """The sessions of one condition of one grouping.

    The partials of a batch wait until they are taken, as the clock tells which of them come too late. All gaps read
    the same partials.
    """

    def __init__(self, components: tuple[Component, ...]) -> None:
        """Begin without sessions."""
        self.components = components
        self.stores: dict[SessionStore, OpenSessions] = {}
        self.operations = 0
        self._arrived: list[Partials] = []

    @property
    def cells(self) -> int:
        """Return how many sessions are open."""
        return sum(len(store) for store in list(self.stores.values()))

    @property
    def nbytes(self) -> int:
        """Return about how much memory the open sessions take."""
        return sum(store.nbytes for store in list(self.stores.values())) + self.state_bytes

    @property
    def state_bytes(self) -> int:
        """Return about how much memory states take."""
        held = [(c, p) for one in list(self.stores.values()) for c, p in zip(one.components, one.planes, strict=True)]
        return sum(bytes_of(planes[0]) for component, planes in held if component.is_state)

    def add(
        self, labels: Int64Array, groups: Int64Array, values: Sequence[Values], distinct: Distinct | None = None
    ) -> None:
        """Note partials of a batch."""
        planes = tuple(c.planes_of(v) for c, v in zip(self.components, values, strict=True))
        self._arrived.append(Partials(labels, groups, planes))

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        *,
        keep_empty: bool = False,
        ranks: Int64Array | None = None,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Refuse to merge stretches of time: sessions are told when they end."""
        raise TypeError("sessions have no windows that are known before")

    def expire(self, before: int) -> None:
        """Do nothing: sessions go when they are final."""

    def reopen(self, since: int) -> None:
        """Do nothing: no partial was left out."""

    def hold(self, components: Sequence[Component]) -> SessionLane:
        """Hold other components from now on."""
        self.components = tuple(components)
        for store in self.stores.values():
            store.hold(self.components)
        return self

    def groups(self) -> Int64Array:
        """Return the groups that have an open session."""
        each = [store.groups for store in self.stores.values()]
        return np.unique(np.concatenate(each)) if each else np.empty(0, np.int64)

    def renumber(self, moved: Int64Array) -> None:
        """Give groups other numbers."""
        for store in self.stores.values():
            store.renumber(moved)

    def settle(self, wanted: Iterable[SessionStore]) -> None:
        """Open the stores that queries need, and close those that none needs."""
        stores = dict.fromkeys(wanted)
        self.stores = {key: self.stores.get(key) or OpenSessions(key.gap_us, self.components) for key in stores}

    def take(self, judged_us: int) -> dict[SessionStore, int]:
        """Put what a batch has brought into every store; return the rows that came too late for each."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return {}
        partials, before = concatenate(arrived), self._merged
        late = {key: rows for key, store in self.stores.items() if (rows := store.take(partials, judged_us))}
        self.operations += self._merged - before
        return late

    @property
    def _merged(self) -> int:
        """Return how many partials the stores have merged."""
        return sum(store.operations for store in self.stores.values())
