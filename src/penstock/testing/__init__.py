"""Tests queries: a test gives rows with timestamps, decides on batches and the clock, and compares answers.

One query, one call. Times are ISO text, datetimes, or seconds since an epoch (2026-01-05 00:00:00 unless given), so
that a test reads like a timeline:

>>> from penstock.testing import compare, run_rows
>>> rows = [{"ts": 1, "price": 10.0}, {"ts": 4, "price": 12.5}, {"ts": 12, "price": 11.0}]
>>> answers = run_rows("SELECT max(price) AS high, count(*) AS n FROM trades [RANGE 10 s SLIDE 5 s]", {"trades": rows})
>>> compare(answers, [{"window_end": 5, "high": 12.5}, {"window_end": 10, "n": 2}, {"window_end": 15}, {"n": 1}])
[]

What differs is said in words, which a test can assert to be nothing:

>>> for line in compare(answers.slice(2), [{"window_end": 15, "n": 2}]):
...     print(line)
row 1 (window_end 2026-01-05T00:00:15.000000Z): n is 1, expected 2
row 2 was not expected: window_start 2026-01-05T00:00:10.000000Z, window_end 2026-01-05T00:00:20.000000Z, high 11.0, n 1

Several queries, batches, late rows, a clock: a test bed. Rows may be mappings (what they leave out is NULL), tuples
in the order of the columns, or an Arrow table:

>>> from penstock.testing import ManualClock, TestBed
>>> with TestBed(clock=ManualClock("2026-01-05 00:01:00")) as bed:
...     bed.stream("trades", "ts TIMESTAMP, symbol STRING, price DOUBLE", time="ts", lateness="5 s")
...     bed.table("listing", [{"symbol": "A", "sector": "steel"}])
...     _ = bed.query("sectors", "SELECT sector, count(*) AS n FROM trades [RANGE 10 s SLIDE 10 s] "
...                              "JOIN listing USING (symbol) GROUP BY sector")
...     bed.feed("trades", [(1, "A", 10.0), (9, "B", 20.0)])               # one batch; the watermark is now 4
...     bed.feed_in_cuts("trades", [(17, "A", 9.0), (8, "A", 9.5), (25, "A", 9.1)], [1, 2])  # 8 is late: 17 - 5 > 8
...     bed.timeline("sectors")                                            # [0, 10) was final before 8 came
...     bed.counts("trades").late
...     bed.clock.advance("1 h")
...     bed.flush()
...     bed.timeline("sectors")
[(10, 'steel', 1), (20, 'steel', 1)]
1
[(10, 'steel', 1), (20, 'steel', 1), (30, 'steel', 1)]

Without a clock no row is ahead of time. Spark interprets the plans of a bed, which for few rows is much faster than
compiling them; ``compiled=True`` lets it do as in production. A state folder (``state=``) makes a second bed go on
where the first one stood, and ``bed.engine`` is the engine itself. Mistakes are errors that name the row: a column
that is not declared, a value of another type, cuts that do not add up.
"""

from __future__ import annotations

from penstock.testing.bed import Columns, TestBed
from penstock.testing.clock import EPOCH, Instant, ManualClock
from penstock.testing.comparison import compare, compare_some
from penstock.testing.one_query import Cuts, run_rows
from penstock.testing.values import Row, Rows

__all__ = [
    "EPOCH",
    "Columns",
    "Cuts",
    "Instant",
    "ManualClock",
    "Row",
    "Rows",
    "TestBed",
    "compare",
    "compare_some",
    "run_rows",
]
