"""Names the cells of evaluations by columns that hold rows, so that only these are read of every component."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.evaluate.components.component import Array, Planes
from penstock.model.arrays import Int64Array


@dataclass(frozen=True, slots=True)
class HeldCells:
    """Cells in order of their evaluations, each of which is a stretch of slices lo … hi - 1."""

    lo: Int64Array
    hi: Int64Array
    evaluation: Int64Array  # of each cell
    column: Int64Array
    _places: dict[int, tuple[Array, Array]] = field(default_factory=dict, init=False)

    def places(self, width: int) -> tuple[Array, Array]:
        """Return where the last and first rows of the cells stand in flat arrays of so many columns."""
        if width not in self._places:
            upper, lower = self.hi * width, self.lo * width
            self._places[width] = upper[self.evaluation] + self.column, lower[self.evaluation] + self.column
        return self._places[width]

    def pick(self, planes: Planes) -> Planes:
        """Pick the cells out of planes [evaluation, column]."""
        return tuple(plane[self.evaluation, self.column] for plane in planes)
