"""Holds a batch's partials of one grouping as arrays, and combines those that are one group to a coarser grouping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import Component, Values
from penstock.evaluate.groups import KeyValues, distinct_rows
from penstock.evaluate.windows.partials import Distinct
from penstock.kernel.defects import Defect
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.conditions.fragments import Words

MUCH_LESS: Final = 0.5  # of the partials may be left for it to pay
MOST_NUMBERS: Final = 1 << 62  # that are counted in 64 bits
NUMBERS_A_PARTIAL: Final = 8  # of possible combinations, up to which they are numbered by a table


@dataclass(frozen=True, slots=True)
class AddedPartials:
    """A batch's partials of one grouping, as arrays."""

    labels: Int64Array
    distinct: Distinct  # labels
    values: Mapping[Component, Values]
    words: Words
    late: BoolArray | None  # holds late rows; None: nobody asks
    keys: Mapping[int, KeyValues | Defect]
    unread: Mapping[Component, Defect]  # components that could not be read

    def rolled_up(self, groups: Int64Array, components: Iterable[Component]) -> tuple[AddedPartials, Int64Array]:
        """Combine the partials of one slice, group and signature, so that every lane of the groups has fewer to take.

        They are left as they are where that saves little, or where some of the components asked for are states.
        Return the groups of what is left, too, which is in order of slices and groups.
        """
        asked = tuple(components)
        if not len(groups) or not all(component.scatters for component in asked):
            return self, groups
        places, first = _numbered([self.distinct.places, groups, *_codes(self.words)])
        if len(first) > MUCH_LESS * len(groups):
            return self, groups
        late = None if self.late is None else np.bincount(places[self.late], minlength=len(first)) > 0
        combined = replace(
            self,
            labels=self.labels[first],
            distinct=self.distinct.take(first),
            values={component: self._combined(component, places, len(first)) for component in asked},
            words=[word[first] for word in self.words],
            late=late,
        )
        return combined, groups[first]

    def _combined(self, component: Component, places: Int64Array, count: int) -> Values:
        """Combine the values of a component that have the same place."""
        planes = component.identities(count)
        component.scatter(planes, places, component.planes_of(self.values[component]))
        return component.values_from(planes)


def _codes(words: Words) -> list[Int64Array]:
    """Number the distinct signatures."""
    if not words:
        return []
    codes = [pa.array(word).dictionary_encode().indices.to_numpy().astype(np.int64) for word in words]
    return [distinct_rows(codes)[0]]


def _numbered(columns: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array]:
    """Number the distinct rows of columns of small numbers in their order; also say where one of each stands."""
    numbers, possible = columns[0], int(columns[0].max()) + 1
    for column in columns[1:]:
        width = int(column.max()) + 1
        if possible * width >= MOST_NUMBERS:
            numbers = np.unique(numbers, return_inverse=True)[1]
            possible = len(numbers)
        numbers, possible = numbers * width + column, possible * width
    if possible > NUMBERS_A_PARTIAL * len(numbers):
        _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        return places, first
    first = np.full(possible, -1, np.int64)
    first[numbers] = np.arange(len(numbers))
    held = first >= 0
    return (np.cumsum(held) - 1)[numbers], first[held]
