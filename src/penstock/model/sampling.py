"""Names what queries that shed load answer by: weights and twins of rows, levels of a stream, columns of answers."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from penstock.errors import LanguageError

WEIGHT: Final = "#weight"  # of a row, a column beside those of its stream: how many it stands for; 0: it is shed
TWINS: Final = "#twins"  # another one: how many rows agree with a kept one, on average; below 0 for half of the rows
SHARE: Final = "sampled"  # the column of answers that tells which share of the rows was kept
BOUND: Final = "_bound"  # what the column that bounds another one's error is called after it
MOST_LEVEL: Final = 10  # at level j, one row of 2^j is kept

_WRITTEN: Final = re.compile(  # 1/4, 0.25 or 25%
    r"(?P<number>[0-9]{1,20}(\.[0-9]{1,20})?)((?P<percent>%)|/(?P<parts>[1-9][0-9]{0,19}))?", re.ASCII
)


def read_level(share: str) -> int:
    """Read the share of the rows that is kept, such as 1/4, 0.25 or 25%, as a level."""
    shares = {Fraction(1, 1 << level): level for level in range(MOST_LEVEL + 1)}
    given = _number("".join(share.split()))
    if given in shares:
        return shares[given]
    nearest = None if given is None else min(shares, key=lambda one: abs(one - given))
    raise LanguageError(
        f'a stream cannot be sampled at "{share[:40]}"',
        detail=f"shares: {', '.join(share_of(level) for level in shares.values())}",
        hint=None if nearest is None else f"The nearest share is {share_of(shares[nearest])}.",
    )


def _number(share: str) -> Fraction | None:
    """Read a share as it may be written; None: it is none."""
    if (found := _WRITTEN.fullmatch(share)) is None:
        return None
    number = Fraction(found["number"]) / (100 if found["percent"] else int(found["parts"] or 1))
    return number if 0 < number <= 1 else None


def share_of(level: int) -> str:
    """Write the share of the rows that a level keeps."""
    return "1" if level == 0 else f"1/{1 << level}"
