"""Conditions on groups, as SQL and as plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from tests.always.combinations.expressions import Having, Row, greatest, more, percentile, present, total


def havings(number: str) -> list[Having]:
    """List conditions on groups over a column of numbers."""

    def known(rows: Sequence[Row]) -> list[int]:
        return present(rows, lambda row: row[number])

    return [
        Having("count(*) > 1", lambda rows: len(rows) > 1),
        Having("count(*) < 4", lambda rows: len(rows) < 4),
        Having(f"sum({number}) > 4", lambda rows: more(total(known(rows)), 4)),
        Having(f"max({number}) < 8", lambda rows: more(8, greatest(known(rows)))),
        Having(f"count(DISTINCT {number}) > 1", lambda rows: len(set(known(rows))) > 1),
        Having(f"median({number}) > 2", lambda rows: more(percentile(known(rows), "0.5"), 2.0)),
    ]
