"""Lists the limits on the size of statements, names, windows and scripts.

They keep a mistake or a hostile text from costing more than a second to refuse, and from reaching Spark at a size at
which Spark itself fails. Each is checked where the thing is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.duration import DAY

MAX_SCRIPT: Final = 5_000_000
MAX_STATEMENT: Final = 100_000
MAX_TOKENS: Final = 25_000
MAX_NESTING: Final = 40
MAX_CHAIN: Final = 500  # Spark recurses on each operator, and overflows at 1,000
MAX_DEPTH: Final = 600  # for the same reason
MAX_NODES: Final = 5_000
MAX_PREDICATES: Final = 1_000
MAX_LIST: Final = 5_000
MAX_OUTPUTS: Final = 500
MAX_KEYS: Final = 50
MAX_SETS: Final = 64
MAX_JOINS: Final = 20
MAX_COLUMNS: Final = 2_000
MAX_OPTIONS: Final = 100
MAX_NAME: Final = 255
MAX_OWN_NAME_BYTES: Final = 120  # part of file names, which hold 255 bytes with all that is added
MAX_DIGITS: Final = 38  # of Spark's widest decimal
MAX_PARTS: Final = 20
MAX_REPETITIONS: Final = 10_000
MAX_GROWTH: Final = 1_000_000
LONGEST_WINDOW_US: Final = 36_525 * DAY
MAX_SLIDES: Final = 100_000_000
WINDOWS_AT_A_TIME: Final = 1_000_000  # unless an engine is told otherwise: some seconds of answers for each row


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: a name for the documentation, its value and what it is about."""

    name: str
    value: int
    meaning: str


LIMITS: Final = (
    Limit("script length", MAX_SCRIPT, "characters of a script"),
    Limit("statement length", MAX_STATEMENT, "characters of a statement"),
    Limit("statement words", MAX_TOKENS, "words, numbers, strings and signs of a statement"),
    Limit("nesting", MAX_NESTING, "levels of parentheses, brackets, calls, CASE, signs and NOT"),
    Limit("chain", MAX_CHAIN, "operators of one chain such as a + b + …"),
    Limit("depth", MAX_DEPTH, "levels of a whole expression, chains and parentheses together"),
    Limit(
        "expression size",
        MAX_NODES,
        "names, constants, operators and calls of a query, aliases in HAVING and ORDER BY written out",
    ),
    Limit("predicates", MAX_PREDICATES, "comparisons and other tests of a query"),
    Limit("list", MAX_LIST, "values of an IN list, arguments of a call"),
    Limit("outputs", MAX_OUTPUTS, "outputs of a query"),
    Limit("keys", MAX_KEYS, "grouping expressions of a query"),
    Limit("grouping sets", MAX_SETS, "grouping sets that ROLLUP, CUBE and GROUPING SETS of a query stand for"),
    Limit("joins", MAX_JOINS, "tables joined in a query"),
    Limit("columns", MAX_COLUMNS, "columns of a stream or table in CREATE"),
    Limit("options", MAX_OPTIONS, "options of a statement"),
    Limit("name length", MAX_NAME, "characters of a name"),
    Limit("own name length", MAX_OWN_NAME_BYTES, "bytes, in UTF-8, of the name of a stream, table, query or function"),
    Limit("interval", MAX_PARTS, "parts of an interval such as 1 hour 30 minutes"),
    Limit("digits", MAX_DIGITS, "digits of a number without an exponent"),
    Limit(
        "repetitions", MAX_REPETITIONS, "the count given to repeat, space, lpad, rpad, array_repeat, sequence and such"
    ),
    Limit("growth", MAX_GROWTH, "how many times longer calls within calls may make a value"),
    Limit("window length", LONGEST_WINDOW_US, "microseconds of a window's range or slide: a hundred years"),
    Limit(
        "windows at a time",
        WINDOWS_AT_A_TIME,
        "slides in a range: how many windows hold one row, and so how many answers it is in; "
        "the setting windows_at_a_time changes it",
    ),
    Limit("windows at a time at the most", MAX_SLIDES, "what windows_at_a_time may be set to"),
)
