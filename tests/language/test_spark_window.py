"""GROUP BY window(…) as Spark users write it: which window it means, and what may name it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import InvalidWindow, LanguageError, PenstockError, UnknownColumn, Unsupported
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.model.query import Output, Query
from penstock.model.schema import Column, Stream
from penstock.model.window import Window
from tests.language.conftest import Catalog

Bound = Callable[[str], Query]
MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("arguments", "window"),
    [
        # starts at 0, 5, 10 …, so ends at 12, 17, 22 …: 12 ≡ 2 (mod 5)
        ("'12 minutes', '5 minutes'", Window(12 * MINUTE, 5 * MINUTE, 2 * MINUTE)),
        ("'12 minutes', '5 minutes', '1 minute'", Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE)),
        ("'12 minutes', '5 minutes', '-1 minute'", Window(12 * MINUTE, 5 * MINUTE, 1 * MINUTE)),
        ("'10 minutes', '5 minutes'", Window(10 * MINUTE, 5 * MINUTE)),
        ("'5 minutes'", Window(5 * MINUTE, 5 * MINUTE)),
        ("INTERVAL 5 MINUTES, INTERVAL '1' MINUTE", Window(5 * MINUTE, MINUTE)),
        ("'1 hour 30 minutes', 'interval 1 hour'", Window(90 * MINUTE, 60 * MINUTE, 30 * MINUTE)),
    ],
)
def test_windows_are_aligned_by_their_starts(bound: Bound, arguments: str, window: Window) -> None:
    query = bound(f"SELECT window, count(*) AS n FROM trades GROUP BY window(ts, {arguments})")
    assert query.window == window
    assert (query.start_aligned, query.grouped, query.keys) == (True, True, ())


def test_the_window_is_a_struct_with_a_start_and_an_end(bound: Bound) -> None:
    query = bound(
        "SELECT window, window.start, date_trunc('hour', window.END) AS h, symbol, sum(price) AS s FROM trades t "
        "GROUP BY symbol, window(t.ts, '12 minutes', '5 minutes') HAVING window.end > TIMESTAMP '2026-01-05' AND s > 1"
    )
    assert query.outputs == (
        Output("window", "`w`"),
        Output("start", "`ws`"),
        Output("h", "date_trunc('hour', `we`)"),
        Output("symbol", "`k0`"),
        Output("s", "`a0`"),
    )
    assert query.having == "`we` > TIMESTAMP '2026-01-05' AND `a0` > 1"
    assert query.text == (
        "SELECT window, window.`start` AS start, date_trunc('hour', window.`END`) AS h, symbol, sum(price) AS s "
        "FROM trades GROUP BY window(ts, '12 min', '5 min'), symbol "
        "HAVING window.`end` > TIMESTAMP '2026-01-05' AND sum(trades.price) > 1"
    )


def test_having_may_name_the_window_by_an_alias(bound: Bound) -> None:
    query = bound(
        "SELECT window.end AS e, count(*) AS n FROM trades GROUP BY window(ts, '1 h') HAVING e > '2026-01-05'"
    )
    assert query.having == "`we` > '2026-01-05'"
    with pytest.raises(Unsupported, match="grouping by an expression over the window is not available"):
        bound("SELECT window.end AS e, count(*) AS n FROM trades GROUP BY window(ts, '1 h'), e")


@pytest.mark.parametrize("key", ["window(ts, '5 minutes')", "w", "1"])
def test_the_call_may_stand_in_the_select_list(bound: Bound, key: str) -> None:
    query = bound(f"SELECT window(ts, '5 minutes') AS w, count(*) AS n FROM trades GROUP BY {key}")
    assert query.outputs == (Output("w", "`w`"), Output("n", "`a0`"))
    assert query.text == "SELECT window AS w, count(*) AS n FROM trades GROUP BY window(ts, '5 min')"


def test_two_spellings_of_a_window_are_one_query(bound: Bound) -> None:
    one = bound("SELECT window.start AS s, count(*) AS n FROM trades GROUP BY window(ts, '1 hour')")
    two = bound(
        "select Window(TS, '60 min', '60 min', '0 s').start s, count(*) n from Trades group by WINDOW(ts, '1 h')"
    )
    assert one == two


def test_a_column_called_window_goes_first() -> None:
    catalog = Catalog()
    catalog.streams.append(Stream("odd", (Column("window", "int"), Column("ts", "timestamp")), "ts"))
    text = "SELECT max(window) AS m, window(ts, '1 min').end AS e FROM odd GROUP BY window(ts, '1 min')"
    query = bind(parse_query(text), catalog, "q")
    assert [str(a) for a in query.aggregates] == ["max(`window`)"]
    assert query.outputs == (Output("m", "`a0`"), Output("e", "`we`"))
    assert bind(parse_query(query.text), catalog, "q") == query


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        (
            "# GROUP BY window(price, '5 min')",
            Unsupported,
            "window() over anything but the event time is not available",
        ),
        (
            "# GROUP BY window(abs(ts), '5 min')",
            Unsupported,
            "window() over anything but the event time is not available",
        ),
        ("# GROUP BY window(tss, '5 min')", UnknownColumn, 'stream "trades" has no column "tss"'),
        (
            "# GROUP BY window(ts)",
            InvalidWindow,
            "window() takes a column and up to three durations, found 1 arguments",
        ),
        ("# GROUP BY window(ts, 5)", InvalidWindow, "window() takes durations such as '12 minutes'"),
        ("# GROUP BY window(ts, '1 month')", InvalidWindow, '"month" has no fixed length'),
        ("# GROUP BY window(ts, '0 s')", InvalidWindow, "the durations of window() must be longer than zero"),
        ("# GROUP BY window(ts, '-5 s')", InvalidWindow, '"-5 s" is not a duration'),
        ("# GROUP BY window(ts, '5 s', '6 s')", InvalidWindow, "the slide of window() must be at most its range"),
        (
            "# GROUP BY window(ts, '5 s', '5 s', '5 s')",
            InvalidWindow,
            "the start time of window() must be less than its slide",
        ),
        (
            "# GROUP BY window(ts, '36000 d', '1 us')",
            InvalidWindow,
            "a window of 36000 d every 1 us holds each row 3,110,400,000,000,000 times",
        ),
        (
            "count(*) FROM trades [RANGE 5 s SLIDE 5 s] GROUP BY window(ts, '5 s')",
            LanguageError,
            "a second window, beside the one in brackets",
        ),
        ("# GROUP BY window(ts, '5 s'), window(ts, '6 s')", LanguageError, "two windows in GROUP BY"),
        (
            "window(ts, '6 s'), count(*) FROM trades GROUP BY window(ts, '5 s')",
            LanguageError,
            "this window is not the one of GROUP BY",
        ),
        ("window.begin FROM trades GROUP BY window(ts, '5 s')", UnknownColumn, 'the window has no field "begin"'),
        (
            "max(window.end) FROM trades GROUP BY window(ts, '5 s')",
            Unsupported,
            "the window inside an aggregate is not available",
        ),
        (
            "count(*) FROM trades WHERE window.end > ts GROUP BY window(ts, '5 s')",
            UnknownColumn,
            'stream "trades" has no column "window"',
        ),
        ("window(ts, '5 s'), count(*) FROM trades [RANGE 5 s SLIDE 5 s]", Unsupported, "window() is not available"),
        ("window, count(*) FROM trades [RANGE 5 s SLIDE 5 s]", UnknownColumn, 'stream "trades" has no column "window"'),
    ],
)
def test_a_window_that_is_none_is_refused(bound: Bound, text: str, kind: type[PenstockError], what: str) -> None:
    with pytest.raises(kind) as raised:
        bound("SELECT " + text.replace("#", "count(*) FROM trades"))
    assert raised.value.what == what
    assert raised.value.place is not None
