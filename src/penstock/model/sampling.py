"""Names what queries that shed load answer by: the weight of a row, the levels of a stream, and columns of answers."""

from __future__ import annotations

from typing import Final

from penstock.errors import LanguageError

WEIGHT: Final = "#weight"  # of a row, a column beside those of its stream: how many it stands for; 0: it is shed
SHARE: Final = "sampled"  # the column of answers that tells which share of the rows was kept
BOUND: Final = "_bound"  # what the column that bounds another one's error is called after it
MOST_LEVEL: Final = 10  # at level j, one row of 2^j is kept


def read_level(share: str) -> int:
    """Read the share of the rows that is kept, such as 1/4, as a level."""
    shares = {share_of(level): level for level in range(MOST_LEVEL + 1)}
    level = {**shares, "1/1": 0}.get("".join(share.split()))
    if level is None:
        raise LanguageError(f'a stream cannot be sampled at "{share[:40]}"', detail=f"shares: {', '.join(shares)}")
    return level


def share_of(level: int) -> str:
    """Write the share of the rows that a level keeps."""
    return "1" if level == 0 else f"1/{1 << level}"
