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
        ("few", pa.list_(pa.int32())), ("huge", pa.float64()),
    ]
)  # fmt: skip
SECONDS = 50
CUTS = (20, 40, 45)  # seconds: each batch but the first begins there
WORDS = ("a", "b", "É", "éa", "zz", "", "A", " pad ", "日本語", "a\u0301", "ß", "x'y", 'q"r', "a%b_c", "🙂k", "\uffff")
STRUCTS = (
    {"u": 1, "v": "a", "q": 0.0},
    {"u": 10, "v": "a", "q": -0.0},
    {"u": 2, "v": None, "q": math.nan},
    {"u": None, "v": "a", "q": 1.0},
)
MOST = 10**38 - 1
NO_FAILURE = {"p": 6, "q": 3, "u": "7", "big": 5, "wide": Decimal(9), "few": [1, 2], "huge": 2.0}
FAILURES: tuple[dict[str, Any], ...] = (
    {"ts": 31.25, "p": 5, "q": 0, "u": "x1", "big": 2**63 - 1, "wide": Decimal(MOST), "few": [1], "huge": 1e300},
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
        clauses = {"select": part} if isinstance(part, str) else dict(part)
        keys = clauses.pop("by", ())
        keys = (keys,) if isinstance(keys, str) else keys
        yield Meaning(f"{prefix}{number:02d}", keys=keys, range_s=range_s, slide_s=slide_s, **clauses)


def _numbers(*names: str) -> str:
    return ", ".join(f"count({c}) AS c{c}, sum({c}) AS s{c}, avg({c}) AS a{c}, min({c}) AS l{c}, max({c}) AS h{c}" for c in names)


def _spreads(*names: str) -> str:
    return ", ".join(f"var_pop({c}) AS a{c}, var_samp({c}) AS b{c}, stddev_pop({c}) AS c{c}, std({c}) AS d{c}" for c in names)


def _by(*keys: str) -> dict[str, Any]:
    outputs = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    return {"select": ", ".join([*outputs, "count(*) AS number", "sum(j) AS total"]), "by": keys}


SIGN = "CASE WHEN x > 0 THEN 'pos' WHEN x < 0 THEN 'neg' END"
PLAIN = tuple(
    _meanings(
        "plain",
        ((10, 10), (20, 10), (15, 10), (5, 10), (30, 15)),
        [
            # aggregates of every type
            _numbers("i", "j"), _numbers("t", "h"), _numbers("n", "x"), _numbers("y", "f"), _numbers("d5", "d12"),
            _numbers("d28", "d30"), _numbers("w10", "w0"), _numbers("w38"),
            _spreads("i", "t"), _spreads("h", "n", "x"), _spreads("f", "d5", "d12"), _spreads("d28", "d30", "w10"),
            "count(s) AS a, min(s) AS b, max(s) AS c, min(b) AS d, max(b) AS e, min(bin) AS f, max(bin) AS g",
            "min(day) AS a, max(day) AS b, min(at) AS c, max(at) AS d, min(ntz) AS e, max(ntz) AS f, max(z) AS g",
            "count(i, x) AS a, count(i, s, b) AS b, count(*) AS c, count(1) AS d, count(NULL) AS e, sum(1) AS f, "
            "sum(0.5) AS g, max('lit') AS h, sum(NULL) AS k, avg(NULL) AS l",
            # keys of every type
            *map(_by, ("i", "x", "y", "d5", "d30", "w10", "w38", "s", "b", "bin", "day", "at", "ntz", "arr", "st")),
            _by("t", "h", "f", "n"), _by("b", "i % 3", "d5 > 0"), _by("struct(b, j)"), _by("array(j, 1)", "b"),
            _by("round(x, 0)", "floor(x)"), _by("y * 0"), _by(SIGN), _by("day + 1"), _by("date_trunc('HOUR', at)"),
            _by("year(day)", "quarter(day)"), _by("upper(s)"), _by("substr(s, 1, 1)", "day > DATE '2026-01-05'"),
            # arithmetic
            "sum(i / j) AS a, sum(i DIV j) AS b, sum(i % j) AS c, sum(pmod(i, j)) AS d, max(n / j) AS e, "
            "avg(d12 / j) AS f, max(d12 % 7) AS g, sum(-j) AS h, sum(i & 255) AS k, sum(shiftleft(j, 2)) AS l",
            {"select": "sum(d5 * d12) AS a, sum(d5 / d12) AS b, max(d28 * d5) AS c, sum(d12 + d28) AS d, min(d30 - d5) AS e, "
             "sum(d5 * 1.5) AS f, max(w10 / 3) AS g, sum(w10 * 2) AS h", "where": "d12 <> 0"},
            "sum(CAST(i AS BIGINT) * j) AS a, max(CAST(n AS DECIMAL(20, 0)) * n) AS b, sum(bit_count(i)) AS c, "
            "max(hex(i)) AS d, max(conv(CAST(j AS STRING), 10, 2)) AS e, max(round(d12, -1)) AS f, max(ceil(d5)) AS g",
            "sum(sqrt(abs(x))) AS a, max(exp(x / 100)) AS b, sum(pow(x, 2)) AS c, max(ln(abs(x) + 1)) AS d, "
            "max(sign(x)) AS e, sum(ceil(x)) AS f, sum(round(x, 1)) AS g, sum(bround(x, 1)) AS h, max(floor(d12)) AS k",
            {"select": "sum(f * 2) AS a, max(f + x) AS b, sum(t * h) AS c, max(t) + max(h) AS d",
             "where": "t BETWEEN -9 AND 9 AND h BETWEEN -9 AND 9"},
            # casts
            "sum(CAST(z AS INT)) AS a, max(CAST(z AS DECIMAL(16, 3))) AS b, sum(try_cast(s AS INT)) AS c, "
            "max(CAST(i AS STRING)) AS d, max(CAST(d12 AS DOUBLE)) AS e, min(CAST(d5 AS INT)) AS f, max(CAST(b AS INT)) AS g",
            "max(CAST(at AS DATE)) AS a, max(CAST(day AS TIMESTAMP)) AS b, max(CAST(at AS STRING)) AS c, "
            "max(CAST(x AS INT)) AS d, max(CAST(f AS STRING)) AS e, max(CAST(bin AS STRING)) AS g, max(CAST(y AS STRING)) AS h",
            # times
            "max(extract(DOW FROM day)) AS a, max(hour(at)) AS b, min(date_add(day, 3)) AS c, max(second(at)) AS d, "
            "max(extract(SECOND FROM at)) AS e, min(last_day(day)) AS f, max(datediff(day, DATE '2020-01-01')) AS g",
            "max(add_months(day, 1)) AS a, max(weekofyear(day)) AS b, max(date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')) AS c, "
            "max(unix_micros(at)) AS d, max(timestamp_micros(n)) AS e, max(trunc(day, 'MM')) AS f, max(make_date(2026, 1, j + 5)) AS g",
            # strings
            "max(upper(s)) AS a, min(lower(s)) AS b, max(substr(s, 2)) AS c, max(concat(s, z)) AS d, max(s || '!') AS e, "
            "sum(length(s)) AS f, max(trim(s)) AS g, max(reverse(s)) AS h, max(octet_length(s)) AS k, max(md5(s)) AS l",
            "max(replace(s, 'a', 'bb')) AS a, max(lpad(s, 5, '*')) AS b, max(regexp_extract(s, '([a-z]+)', 1)) AS c, "
            "max(regexp_replace(s, '[aeiou]', '#')) AS d, max(split_part(s, 'a', 1)) AS e, max(initcap(s)) AS f, "
            "max(translate(s, 'ab', 'xy')) AS g, max(instr(s, 'a')) AS h, max(ascii(s)) AS k, max(base64(bin)) AS l",
            {"select": "count(*) AS n", "where": r"s LIKE 'a\\%b%' OR s = 'x''y' OR s = 'q\"r'"},
            {"select": "count(*) AS n, max(s) AS m", "where": "s IN ('日本語', 'ß', '🙂k') OR s RLIKE '^[A-Z]'"},
            # choices, arrays, structs
            "sum(CASE WHEN i > 0 THEN 1 WHEN i < 0 THEN -1 ELSE 0 END) AS a, max(IF(b, s, z)) AS b, sum(coalesce(i, j, 0)) AS c, "
            "sum(nullif(j, 2)) AS d, max(greatest(i, j, 0)) AS e, min(least(x, y)) AS f, max(greatest(x, y)) AS g, sum(nvl(x, 0.5)) AS h",
            {"select": "max(struct(i, s).i) AS a, max(st.u) AS b, min(st.v) AS c, max(arr[0]) AS d, max(size(arr)) AS e, "
             "max(array_join(arr, '-')) AS f, max(to_json(st)) AS g", "where": "arr IS NOT NULL AND size(arr) > 0"},
            # expressions over aggregates, HAVING
            "sum(x) / count(*) AS a, round(avg(x), 2) AS b, sum(d12) * 1.5 AS c, concat(max(s), '!') AS d, sum(i) % 7 AS e, "
            "abs(min(x)) AS f, sum(d5) / sum(j) AS g, max(j) - min(j) AS h, -sum(n) AS k, max(at) - min(at) AS l",
            "sum(d12) / count(*) AS a, round(avg(d12), 1) AS b, avg(d12) + 1 AS c, sum(d5) + sum(d12) AS d, sum(w10) - sum(d5) AS e, "
            "max(d30) * 2 AS f, cast(sum(d12) AS DOUBLE) AS g, sum(d5) > sum(d12) AS h, sum(d5) / 3 AS k",
            "max(at) > min(at) AS a, hour(max(at)) AS b, datediff(max(day), min(day)) AS c, max(b) AND min(b) AS d, upper(max(s)) AS e, "
            "coalesce(max(s), 'none') AS f, CASE WHEN count(*) > 3 THEN 'many' ELSE 'few' END AS g, max(y) = max(y) AS h",
            {"select": "b, sum(i) AS s, count(*) AS n", "by": "b", "having": "length(max(s)) > 0 AND round(avg(x), 0) <> 1"},
            {"select": "sum(i) AS total", "having": "sum(i) IS NOT NULL AND max(s) LIKE '%a%'"},
            {"select": "j AS k, max(d12) AS m", "by": "j", "having": "max(d12) > 5 AND count(*) BETWEEN 1 AND 3"},
        ],
    )
)  # fmt: skip

RATIO = {"select": "sum(p / q) AS a, count(*) AS n"}
FAILING = tuple(
    _meanings(
        "failing",
        ((10, 10), (20, 10), (15, 10)),
        [
            # the same division unguarded, and guarded in every way
            RATIO, {**RATIO, "where": "q <> 0 AND p / q > 1"}, {**RATIO, "where": "p / q > 1 AND q <> 0"},
            {"select": "count(*) AS n", "where": "q = 0 OR p / q > 1"},
            {"select": "count(*) AS n", "where": "NOT (q = 0) AND (p DIV q > 1 OR p > 5)"},
            "sum(CASE WHEN q = 0 THEN NULL ELSE p / q END) AS a, sum(IF(q <> 0, p DIV q, 0)) AS b, sum(try_divide(p, q)) AS c",
            "sum(CASE WHEN q = 0 THEN p / q ELSE 1 END) AS a",
            {"select": "p / q AS k, count(*) AS n", "by": "p / q"},
            {"select": "p / q AS k, count(*) AS n", "by": "p / q", "where": "q <> 0"},
            "sum(p DIV q) AS a", "sum(p % q) AS a", "max(d5 / q) AS a",
            # casts
            "sum(CAST(u AS INT)) AS a", {"select": "sum(CAST(u AS INT)) AS a", "where": "u RLIKE '^[0-9]{1,5}$'"},
            {"select": "CAST(u AS INT) AS k, count(*) AS n", "by": "CAST(u AS INT)"}, {"select": "count(*) AS n", "where": "u > 3"},
            "sum(try_cast(u AS INT)) AS a", "max(CAST(u AS DECIMAL(5, 2))) AS a", "sum(CAST(big AS INT)) AS a", "sum(CAST(huge AS INT)) AS a",
            # overflow of rows and of sums
            "sum(p + q) AS a", "sum(p * q) AS a", "max(-p) AS a", "max(abs(p)) AS a", "sum(big + 1) AS a", "max(wide + 1) AS a",
            "sum(big) AS a", "avg(big) AS a", "sum(wide) AS a", "avg(wide) AS a", "sum(huge * huge) AS a",
            # arrays, dates, maps, formats: errors of other kinds
            "max(element_at(few, 2)) AS a", "max(get(few, 1)) AS a",
            {"select": "count(*) AS n", "where": "few IS NOT NULL AND size(few) > 1 AND few[1] > 0"},
            "max(make_date(2026, p, 1)) AS a", "max(element_at(map(coalesce(p, 0), 1, coalesce(q, 1), 2), p)) AS a",
            "max(format_string(u, p)) AS a", "max(size(split('abc', u))) AS a", "max(size(sequence(6, p, 1))) AS a",
            # over aggregates
            "sum(p) / min(q) AS a", {"select": "count(*) AS n", "having": "10 / min(q) > 0"}, "CAST(max(u) AS INT) AS a",
            "max(big) + 1 AS a", "max(p) - min(p) AS a", "CAST(max(big) AS INT) AS a", "max(wide) * 10 AS a",
            {"select": "q AS k, 10 % q AS a, count(*) AS n", "by": "q"},
            {"select": "q AS k, max(p) / q AS a", "by": "q", "having": "q <> 0"},
        ],
    )
)  # fmt: skip
