"""Chooses how columns of answers are encoded in Parquet files: differences where they are small, words that repeat.

Without being told, the writer begins a dictionary for every column, and gives it up only once it has grown too large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

CODEC: Final = "zstd"
SAMPLE: Final = 4_096  # rows that are looked at
REPEATING: Final = 0.95  # of them that are distinct: from there on, a dictionary has some 40,000 words and more
DELTA: Final = "DELTA_BINARY_PACKED"
COUNTED: Final = ("commit", "ordinal")  # of continuous queries; they grow from row to row, as times do


def encoded(table: pa.Table) -> dict[str, Any]:
    """Return what a Parquet writer is to be told for tables like this one."""
    words, deltas = list[str](), dict[str, str]()
    for field in table.schema:
        if _is_delta(table[field.name], field):
            deltas[field.name] = DELTA
        elif pa.types.is_nested(field.type) or _repeats(table[field.name]):
            words += _leaves(field)
    return {"compression": CODEC, "use_dictionary": words or False, "column_encoding": deltas or None}


def _is_delta(column: pa.ChunkedArray, field: pa.Field) -> bool:
    """Tell whether neighbours differ little, or values are whole numbers that hardly repeat."""
    if pa.types.is_timestamp(field.type) or (field.name in COUNTED and pa.types.is_int64(field.type)):
        return True
    return (pa.types.is_int32(field.type) or pa.types.is_int64(field.type)) and not _repeats(column)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Tell whether values of a column are worth a dictionary."""
    if pa.types.is_dictionary(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return True
    sample = column.slice(0, SAMPLE).drop_null()
    return len(pc.unique(sample)) < REPEATING * len(sample)


def _leaves(field: pa.Field, within: str = "") -> Iterator[str]:
    """Name the columns of a Parquet file that hold a field's values."""
    path, kind = f"{within}{field.name}", field.type
    if pa.types.is_map(kind):
        yield from _leaves(kind.key_field.with_name("key"), f"{path}.key_value.")
        yield from _leaves(kind.item_field.with_name("value"), f"{path}.key_value.")
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _leaves(kind.field(place), f"{path}.")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(kind.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path
