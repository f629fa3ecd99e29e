"""Rows with edge values of every type, and query texts whose meaning is Spark's: what both engines are asked."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import cycle
from typing import Any

import pyarrow as pa

from tests.oracle.spark_batch import INSTANT, Meaning, rows_at

STRUCT = pa.struct([("u", pa.int32()), ("v", pa.string()), ("q", pa.float64())])
SCHEMA = pa.schema(
    [
        ("ts", INSTANT), ("i", pa.int32()), ("j", pa.int32()), ("t", pa.int8()), ("h", pa.int16()), ("n", pa.int64()),
        ("x", pa.float64()), ("y", pa.float64()), ("f", pa.float32()), ("b", pa.bool_()), ("bin", pa.binary()),
        ("d5", pa.decimal128(5, 2)), ("d12", pa.decimal128(12, 2)), ("d28", pa.decimal128(28, 6)),
        ("d30", pa.decimal128(30, 2)), ("w10", pa.decimal128(38, 10)), ("w0", pa.decimal128(38, 0)),
        ("w38", pa.decimal128(38, 38)), ("s", pa.string()), ("z", pa.string()), ("day", pa.date32()), ("at", INSTANT),
        ("ntz", pa.timestamp("us")), ("arr", pa.list_(pa.int32())), ("st", STRUCT),
        # on these some queries fail, in the fourth window only
        ("p", pa.int32()), ("q", pa.int32()), ("u", pa.string()), ("big", pa.int64()), ("wide", pa.decimal128(38, 0)),
        ("few", pa.list_(pa.int32())),
    ]
)  # fmt: skip
SECONDS = 50
CUTS = (20, 40)  # seconds: each batch but the first begins there
WORDS = ("a", "b", "É", "éa", "zz", "", "A", " pad ", "日本語", "a\u0301", "ß", "x'y", 'q"r', "a%b_c", "🙂k", "\uffff")
STRUCTS = (
    {"u": 1, "v": "a", "q": 0.0},
    {"u": 10, "v": "a", "q": -0.0},
    {"u": 2, "v": None, "q": math.nan},
    {"u": None, "v": "a", "q": 1.0},
)
MOST = 10**38 - 1
NO_FAILURE = {"p": 6, "q": 3, "u": "7", "big": 5, "wide": Decimal(9), "few": [1, 2]}
FAILURES: tuple[dict[str, Any], ...] = (
    {"ts": 31.25, "p": 5, "q": 0, "u": "x1", "big": 2**63 - 1, "wide": Decimal(MOST), "few": [1]},
    {"ts": 32.5, "p": 2**31 - 1, "q": 2**31 - 1, "big": 2**62, "wide": Decimal(MOST // 2), "u": "[", "few": []},
    {"ts": 33.5, "p": -(2**31), "q": -1, "u": "99999999999"},
    {"ts": 34.5, "p": 3, "q": 3, "u": "%q"},
    {"ts": 35.5, "p": None, "q": None, "u": None, "few": None},
)


def make_rows(seed: int, number: int = 60) -> pa.Table:
    """Make rows of five windows of ten seconds, the third of them empty, in order from batch to batch only."""
    rng = random.Random(seed)
    times = [0.000001, *(rng.uniform(0, SECONDS - 1) for _ in range(number)), SECONDS - 1.0]
    rows = [make_row(rng, t - 10 if 20 <= t < 30 else t) for t in times]
    rows += [{**make_row(rng, 0), **NO_FAILURE, **failure} for failure in FAILURES]
    rng.shuffle(rows)
    return rows_at(SCHEMA, sorted(rows, key=lambda row: sum(row["ts"] >= cut for cut in CUTS)))


def make_row(rng: random.Random, ts: float) -> dict[str, Any]:
    """Choose edge values often, and NULL now and then."""
    day, noon = date(2026, 1, 5), datetime(2024, 2, 29, 12, 59, 59, 999_999)

    def digits(number: int, scale: int = 0) -> Decimal:
        return Decimal(rng.randint(1 - 10**number, 10**number - 1)).scaleb(-scale)

    row: dict[str, Any] = {
        "i": rng.choice([2**31 - 1, -(2**31), 0, 7, -7, rng.randint(-100, 100)]),
        "j": rng.choice([1, 2, 3, -4, 7]),
        "t": rng.choice([127, -128, rng.randint(-9, 9)]),
        "h": rng.choice([32767, -32768, rng.randint(-9, 9)]),
        "n": rng.choice([2**40, -(2**40), rng.randint(-1000, 1000), 2**53 + 1]),
        "x": rng.choice([rng.uniform(-100, 100), 0.5, -0.0, 1 / 3]),
        "y": rng.choice([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, rng.uniform(-3, 3), rng.uniform(-3, 3)]),
        "f": rng.choice([0.5, -1.25, 3.0, 0.1, -0.0]),
        "b": rng.random() < 0.5,
        "bin": rng.choice([b"", b"\x00\xff", b"ab", "é".encode()]),
        "d5": digits(5, 2),
        "d12": digits(12, 2),
        "d28": digits(28, 6),
        "d30": digits(rng.choice([30, 4]), 2),
        "w10": digits(rng.choice([33, 3]), 10),
        "w0": digits(rng.choice([32, 33, 1])),
        "w38": digits(32, 38),
        "s": rng.choice(WORDS),
        "z": rng.choice(["1", "-5", "12", "2147483647", " 8 ", "+3"]),
        "day": day + timedelta(days=rng.randint(-800, 400)),
        "at": (noon + timedelta(microseconds=rng.randint(-(10**14), 10**14))).replace(tzinfo=UTC),
        "ntz": datetime(1969, 12, 31, 23) + timedelta(microseconds=rng.randint(-(10**14), 10**14)),
        "arr": rng.choice([[], [1], [1, None], [2, 1], [10, 1]]),
        "st": rng.choice(STRUCTS),
    }
    return {"ts": ts, **{k: None if rng.random() < 0.12 else v for k, v in row.items()}, **NO_FAILURE}


def _meanings(prefix: str, windows: Sequence[tuple[int, int]], parts: Sequence[Any]) -> Iterator[Meaning]:
    """Give names and windows in turn; a text alone is a SELECT list, else a dictionary of clauses."""
    for number, (part, (range_s, slide_s)) in enumerate(zip(parts, cycle(windows), strict=False)):
        clauses = dict(part) if isinstance(part, dict) else {"select": part}
        keys = clauses.pop("by", ())
        keys = (keys,) if isinstance(keys, str) else keys
        yield Meaning(f"{prefix}{number:02d}", keys=keys, range_s=range_s, slide_s=slide_s, **clauses)


def _each(functions: str, columns: str) -> str:
    """Apply every function to every column."""
    calls = [f"{function}({column})" for column in columns.split() for function in functions.split()]
    return _listed(*calls)


def _listed(*expressions: str) -> str:
    """Name expressions in their order."""
    return ", ".join(f"{expression} AS o{i}" for i, expression in enumerate(expressions))


def _by(*keys: str) -> dict[str, Any]:
    """Count by keys."""
    return {"select": _listed(*keys, "count(*)", "sum(j)"), "by": keys}


NUMBERS, SPREADS, SHAPES = "count sum avg min max", "var_pop var_samp stddev_pop std", "skewness kurtosis"
SIGN = "CASE WHEN x > 0 THEN 'pos' WHEN x < 0 THEN 'neg' END"
PLAIN = tuple(
    _meanings(
        "plain",
        ((10, 10), (20, 10), (15, 10), (5, 10), (30, 15)),
        [
            # aggregates of every type
            _each(NUMBERS, "i j t h n"),
            _each(NUMBERS, "x y f"),
            _each(NUMBERS, "d5 d12 d28"),
            _each(NUMBERS, "d30 w10 w0 w38"),
            _each(SPREADS, "i t h n x f"),
            _each(SPREADS, "d5 d12 d28 d30 w10"),
            _each("count min max", "s z b bin day at ntz"),
            _listed(
                "count(i, x)", "count(i, s, b)", "count(*)", "count(1)", "count(NULL)", "sum(1)", "sum(0.5)",
                "max('lit')", "sum(NULL)", "avg(NULL)",
            ),
            # keys of every type
            *map(_by, ("y", "s", "at", "arr", "st")),
            _by("i", "x"),
            _by("d5", "b"),
            _by("d30", "day"),
            _by("w10", "bin"),
            _by("w38", "ntz"),
            _by("t", "h", "f", "n"),
            _by("struct(b, j)"),
            _by("array(j, 1)", "b"),
            _by("round(x, 0)", "floor(x)"),
            _by(SIGN, "day + 1"),
            _by("date_trunc('HOUR', at)", "year(day)"),
            _by("upper(s)", "i % 3", "y * 0"),
            _by("substr(s, 1, 1)", "day > DATE '2026-01-05'"),
            # arithmetic
            _listed(
                "sum(i / j)", "sum(i DIV j)", "sum(i % j)", "sum(pmod(i, j))", "max(n / j)", "avg(d12 / j)",
                "max(d12 % 7)", "sum(-j)", "sum(i & 255)", "sum(shiftleft(j, 2))", "sum(CAST(i AS BIGINT) * j)",
                "max(CAST(n AS DECIMAL(20, 0)) * n)", "sum(bit_count(i))", "max(hex(i))",
                "max(conv(CAST(j AS STRING), 10, 2))", "max(round(d12, -1))", "max(ceil(d5))", "max(floor(d12))",
            ),
            {
                "select": _listed(
                    "sum(d5 * d12)", "sum(d5 / d12)", "max(d28 * d5)", "sum(d12 + d28)", "min(d30 - d5)",
                    "sum(d5 * 1.5)", "max(w10 / 3)", "sum(w10 * 2)",
                ),
                "where": "d12 <> 0",
            },
            _listed(
                "sum(sqrt(abs(x)))", "max(exp(x / 100))", "sum(pow(x, 2))", "max(ln(abs(x) + 1))", "max(sign(x))",
                "sum(ceil(x))", "sum(round(x, 1))", "sum(bround(x, 1))",
            ),
            {
                "select": _listed("sum(f * 2)", "max(f + x)", "sum(t * h)", "max(t) + max(h)"),
                "where": "t BETWEEN -9 AND 9 AND h BETWEEN -9 AND 9",
            },
            # casts and times
            _listed(
                "sum(CAST(z AS INT))", "max(CAST(z AS DECIMAL(16, 3)))", "sum(try_cast(s AS INT))",
                "max(CAST(i AS STRING))", "max(CAST(d12 AS DOUBLE))", "min(CAST(d5 AS INT))", "max(CAST(b AS INT))",
                "max(CAST(at AS DATE))", "max(CAST(day AS TIMESTAMP))", "max(CAST(at AS STRING))",
                "max(CAST(x AS INT))", "max(CAST(f AS STRING))", "max(CAST(bin AS STRING))", "max(CAST(y AS STRING))",
            ),
            _listed(
                "max(extract(DOW FROM day))", "max(hour(at))", "min(date_add(day, 3))", "max(second(at))",
                "max(extract(SECOND FROM at))", "min(last_day(day))", "max(datediff(day, DATE '2020-01-01'))",
                "max(add_months(day, 1))", "max(weekofyear(day))", "max(unix_micros(at))", "max(timestamp_micros(n))",
                "max(date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))", "max(trunc(day, 'MM'))",
                "max(make_date(2026, 1, j + 5))",
            ),
            # strings
            _listed(
                "max(upper(s))", "min(lower(s))", "max(substr(s, 2))", "max(concat(s, z))", "max(s || '!')",
                "sum(length(s))", "max(trim(s))", "max(reverse(s))", "max(octet_length(s))", "max(md5(s))",
                "max(replace(s, 'a', 'bb'))", "max(lpad(s, 5, '*'))", "max(regexp_extract(s, '([a-z]+)', 1))",
                "max(regexp_replace(s, '[aeiou]', '#'))", "max(split_part(s, 'a', 1))", "max(initcap(s))",
                "max(translate(s, 'ab', 'xy'))", "max(instr(s, 'a'))", "max(ascii(s))", "max(base64(bin))",
            ),
            {"select": "count(*) AS n", "where": r"s LIKE 'a\\%b%' OR s = 'x''y' OR s = 'q\"r'"},
            {"select": "count(*) AS n, max(s) AS m", "where": "s IN ('日本語', 'ß', '🙂k') OR s RLIKE '^[A-Z]'"},
            # choices, arrays, structs
            _listed(
                "sum(CASE WHEN i > 0 THEN 1 WHEN i < 0 THEN -1 ELSE 0 END)", "max(IF(b, s, z))",
                "sum(coalesce(i, j, 0))", "sum(nullif(j, 2))", "max(greatest(i, j, 0))", "min(least(x, y))",
                "max(greatest(x, y))", "sum(nvl(x, 0.5))",
            ),
            {
                "select": _listed(
                    "max(struct(i, s).i)", "max(st.u)", "min(st.v)", "max(arr[0])", "max(size(arr))",
                    "max(array_join(arr, '-'))", "max(to_json(st))",
                ),
                "where": "arr IS NOT NULL AND size(arr) > 0",
            },
            # expressions over aggregates, HAVING
            _listed(
                "sum(x) / count(*)", "round(avg(x), 2)", "sum(d12) * 1.5", "concat(max(s), '!')", "sum(i) % 7",
                "abs(min(x))", "sum(d5) / sum(j)", "max(j) - min(j)", "-sum(n)", "max(at) - min(at)",
            ),
            _listed(
                "sum(d12) / count(*)", "round(avg(d12), 1)", "avg(d12) + 1", "sum(d5) + sum(d12)",
                "sum(w10) - sum(d5)", "max(d30) * 2", "cast(sum(d12) AS DOUBLE)", "sum(d5) > sum(d12)", "sum(d5) / 3",
            ),
            _listed(
                "max(at) > min(at)", "hour(max(at))", "datediff(max(day), min(day))", "max(b) AND min(b)",
                "upper(max(s))", "coalesce(max(s), 'none')", "CASE WHEN count(*) > 3 THEN 'many' ELSE 'few' END",
                "max(y) = max(y)",
            ),
            {"select": _listed("b", "struct(b, max(i))", "to_json(struct(max(i), j))"), "by": ("b", "j")},
            {**_by("b"), "having": "length(max(s)) > 0 AND round(avg(x), 0) <> 1"},
            {"select": "sum(i) AS total", "having": "sum(i) IS NOT NULL AND max(s) LIKE '%a%'"},
            {**_by("j"), "having": "max(d12) > 5 AND count(*) BETWEEN 1 AND 3"},
            # the shape of numbers, added last so that the others keep their windows
            _each(SHAPES, "i t h n x y f d5 d12 d28 d30 w10 w0 w38"),
            {
                "select": _listed("b", "skewness(x)", "kurtosis(j) FILTER (WHERE i > 0)", "round(kurtosis(x) + 3, 3)"),
                "by": ("b",),
                "having": "skewness(j) IS NOT NULL",
            },
        ],
    )
)  # fmt: skip

RATIO = {"select": "sum(p / q) AS a, count(*) AS n"}
COUNT = {"select": "count(*) AS n"}
FAILING = tuple(
    _meanings(
        "failing",
        ((10, 10), (20, 10), (15, 10)),
        [
            # one division, unguarded and guarded in every way
            RATIO,
            {**RATIO, "where": "q <> 0 AND p / q > 1"},
            {**RATIO, "where": "p / q > 1 AND q <> 0"},
            {**COUNT, "where": "q = 0 OR p / q > 1"},
            {**COUNT, "where": "NOT (q = 0) AND (p DIV q > 1 OR p > 5)"},
            _listed("sum(CASE WHEN q = 0 THEN NULL ELSE p / q END)", "sum(IF(q <> 0, p DIV q, 0))"),
            _by("p / q"),
            {**_by("p / q"), "where": "q <> 0"},
            # casts
            "sum(CAST(u AS INT)) AS a",
            {"select": "sum(CAST(u AS INT)) AS a", "where": "u RLIKE '^[0-9]{1,5}$'"},
            _by("CAST(u AS INT)"),
            {**COUNT, "where": "u > 3"},
            "sum(try_cast(u AS INT)) AS a",
            # overflow of a row's value, of a sum
            "sum(p + q) AS a",
            "max(-p) AS a, max(abs(p)) AS b",
            "sum(big + 1) AS a",
            "max(wide + 1) AS a",
            "sum(big) AS a",
            "avg(big) AS a",
            "sum(wide) AS a",
            "avg(wide) AS a",
            # errors of other kinds
            "max(element_at(few, 2)) AS a",
            "max(get(few, 1)) AS a",
            {**COUNT, "where": "few IS NOT NULL AND size(few) > 1 AND few[1] > 0"},
            "max(make_date(2026, p, 1)) AS a",
            "max(element_at(map(coalesce(p, 0), 1, coalesce(q, 1), 2), p)) AS a",
            "max(format_string('%c', p)) AS a",
            "max(size(split('abc', u))) AS a",
            "max(to_number(u, '9')) AS a",
            # over aggregates
            "sum(p) / min(q) AS a",
            {**COUNT, "having": "10 / min(q) > 0"},
            "CAST(max(u) AS INT) AS a",
            "max(big) + 1 AS a",
            {"select": "q AS k, 10 % q AS a, count(*) AS n", "by": "q"},
            {"select": "q AS k, max(p) / q AS a", "by": "q", "having": "q <> 0"},
        ],
    )
)
