"""Says how much more than they need arrays may take as they grow: as much again, or hardly anything near a cap.

Arrays that double are copied seldom, and may take twice what they hold. Where memory is capped, room to spare is asked
for before it is taken. Once there is none, arrays grow by a sixteenth, and what slices leave behind is given back at
once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from penstock.evaluate.components.component import kept_width, widened

LITTLE: Final = 16  # the part of what is needed that may be taken besides where there is no room to spare
SOON: Final = 8  # the part of the slices whose going is waited for there; otherwise it is half of them


@dataclass(slots=True)
class Growth:
    """The bytes that arrays may take beyond what they need; whoever keeps a cap says how many there are."""

    spare: float = math.inf

    @property
    def is_tight(self) -> bool:
        """Tell whether there is nothing to spare."""
        return self.spare <= 0

    def rows(self, need: int, wished: int, row_bytes: int) -> int:
        """Return for how many rows to make room; ``wished`` is for how many there would be without a cap."""
        return self._granted(need, wished, row_bytes)

    def columns(self, have: int, need: int, column_bytes: int) -> int:
        """Return for how many columns to make room where there is room for fewer than are needed, or for enough."""
        return have if need <= have else self._granted(need, widened(have, need), column_bytes)

    def kept_columns(self, have: int, need: int) -> int:
        """Return for how many columns there is to be room once only some are needed."""
        return need if self.is_tight else kept_width(have, need)

    def keeps(self, rows: int, used: int, most: int) -> bool:
        """Tell whether an array stays that has room for so many rows; ``used`` are, and it may have ``most`` each."""
        return rows <= (used + used // LITTLE + 1 if self.is_tight else most * used)

    def is_small(self, size: int, most: int) -> bool:
        """Tell whether an array of up to ``most`` numbers is not worth making anew for the room that is not used."""
        return size <= most and not self.is_tight

    def waits(self, gone: int, slices: int) -> bool:
        """Tell whether slices that nobody needs stay in the arrays until more of them can go together."""
        return (SOON if self.is_tight else 2) * gone < max(1, slices)

    def _granted(self, need: int, wished: int, each: int) -> int:
        """Grant what is wished for if there is room to spare for it, or little more than is needed."""
        more = (wished - need) * each
        if more > self.spare:
            return min(wished, need + need // LITTLE)
        self.spare -= more
        return wished


UNBOUNDED: Final = Growth()
