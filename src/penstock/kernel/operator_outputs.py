"""Writes what operators have computed of a commit's rows as a table, and takes it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.kernel.operator_block import RowBlock
from penstock.share.operators.calls import OperatorCall


def outputs_table(blocks: Sequence[RowBlock], operators: Mapping[str, OperatorCall]) -> pa.Table:
    """Write values, what is computed, and errors, three columns for each operator; all rows of a commit."""
    columns: dict[str, pa.Array] = {}
    for name, operator in operators.items():
        known = [block.of(operator) for block in blocks]
        errors = [one.errors.get(row) for one in known for row in range(len(one.done))]
        columns[name] = pa.concat_arrays([one.array for one in known])
        columns[f"{name}?"] = pa.array(np.concatenate([one.done for one in known]))
        columns[f"{name}!"] = pa.array(errors, pa.string())
    return pa.table(columns)


def take_outputs(blocks: Sequence[RowBlock], operators: Mapping[str, OperatorCall], outputs: pa.Table) -> None:
    """Give blocks what was computed of them."""
    at = 0
    for block in blocks:
        mine = outputs.slice(at, block.rows.num_rows)
        at += block.rows.num_rows
        for name, operator in operators.items():
            if name in outputs.column_names and outputs[name].type == operator.returns:
                _take(block, operator, mine)


def _take(block: RowBlock, operator: OperatorCall, outputs: pa.Table) -> None:
    """Give a block the values of one operator."""
    name = operator.column
    places = np.flatnonzero(outputs[f"{name}?"].to_numpy())
    errors = outputs[f"{name}!"].to_pylist()
    if len(places):
        values = outputs[name].combine_chunks().take(pa.array(places))
        block.of(operator).add(places, values, {int(row): errors[row] for row in places if errors[row] is not None})
