"""Rows are sorted and numbered in the driver as Spark would, or left to it."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.partitions import Partitions
from penstock.kernel.row_order import in_order, numbers_apart, numbers_from

STRIDE = 1_000
ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3), st.sampled_from(["a", "b", None])), max_size=30)


def table(rows: list[tuple[int, int, str | None]]) -> pa.Table:
    times, hashes, keys = zip(*rows, strict=True) if rows else ((), (), ())
    types = {"t": pa.int64(), "h": pa.int64(), "k": pa.string()}
    return pa.table({n: pa.array(c, types[n]) for n, c in zip("thk", (times, hashes, keys), strict=True)})


@given(ROWS)
def test_rows_are_in_the_order_of_time_and_hash_unless_that_leaves_it_open(
    rows: list[tuple[int, int, str | None]],
) -> None:
    found = in_order(table(rows), "t", "h")
    contents: dict[tuple[int, int], set[str | None]] = {}
    for time, hashed, key in rows:
        contents.setdefault((time, hashed), set()).add(key)
    if any(len(keys) > 1 for keys in contents.values()):
        assert found is None
    else:
        assert found is not None
        assert [tuple(row.values()) for row in found.to_pylist()] == sorted(rows, key=lambda row: row[:2])


@given(ROWS, ROWS)
def test_each_key_counts_its_own_rows_from_batch_to_batch(
    first: list[tuple[int, int, str | None]], second: list[tuple[int, int, str | None]]
) -> None:
    parts, counts = Partitions(STRIDE, [pa.string()]), dict[str | None, int]()
    for rows in filter(None, (first, second)):
        keys = table(rows)
        numbers = numbers_apart(parts, keys, ["k"])
        for (_, _, key), number in zip(rows, numbers.tolist(), strict=True):
            assert number % STRIDE == counts.setdefault(key, 0)
            counts[key] += 1
        parts.note([keys["k"]], numbers)


def test_zero_is_one_key_whatever_its_sign_and_so_is_nan() -> None:
    rows = pa.table({"k": [0.0, -0.0, float("nan"), -float("nan"), 0.0]})
    numbers = numbers_apart(Partitions(STRIDE, [pa.float64()]), rows, ["k"]).tolist()
    assert [number % STRIDE for number in numbers] == [0, 1, 0, 1, 2]


def test_numbers_go_on_from_the_next_one() -> None:
    assert numbers_from(7, pa.table({"k": ["a", "b"]})).tolist() == [7, 8]
