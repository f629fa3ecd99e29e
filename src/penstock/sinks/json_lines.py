"""Writes a table of answers as lines of JSON, column by column: each distinct value is worded once."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.printable import json_text
from penstock.sinks.row_values import plain_values

NULL: Final = "null"
_BITS: Final = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}  # equal values of which are written alike


def json_lines(table: pa.Table) -> memoryview:
    """Write the rows of a table, a line each; signs that do not show are escaped, so that a terminal may show them."""
    if not table.num_rows:
        return memoryview(b"")
    heads = [f"{', ' if place else '{'}{json_text(name)}: " for place, name in enumerate(table.column_names)]
    texts = [part for head, column in zip(heads, table.columns, strict=True) for part in (_text(head), _worded(column))]
    lines = pc.binary_join_element_wise(*texts, _text("}\n"), _text(""))
    end = np.frombuffer(lines.buffers()[1], np.int32)[len(lines)]
    return memoryview(lines.buffers()[2])[:end]


def _text(text: str) -> pa.Scalar:
    """Make a constant; without its type, Arrow would look at it for long."""
    return pa.scalar(text, pa.string())


def _worded(column: pa.ChunkedArray) -> pa.Array:
    """Write the values of a column as JSON; whole numbers and truth values as Arrow writes them, which is the same."""
    whole = column.combine_chunks()
    if pt.is_integer(whole.type) or pt.is_boolean(whole.type):
        return pc.fill_null(whole.cast(pa.string()), NULL)
    if pt.is_nested(whole.type):
        return _each(whole)
    if pt.is_dictionary(whole.type):
        return _taken(whole.indices, _each(whole.dictionary))
    bits = _BITS.get(whole.type)
    try:
        encoded = (whole if bits is None else whole.view(bits)).dictionary_encode()
    except pa.ArrowNotImplementedError:  # a type whose values Arrow cannot tell apart
        return _each(whole)
    return _taken(encoded.indices, _each(encoded.dictionary.view(whole.type)))


def _each(values: pa.Array) -> pa.Array:
    """Write values one by one."""
    texts = [repr(v) if type(v) is float else json_text(v, allow_nan=False) for v in plain_values(values)]
    return pa.array(texts, pa.string())


def _taken(places: pa.Array, texts: pa.Array) -> pa.Array:
    """Put texts where their values were."""
    return pc.fill_null(texts.take(places), NULL)
