"""Writes what operators have computed of a commit's rows as a table, and takes it back.

Rows that are not in it have left their blocks: nobody who waits takes them, and nobody looks at them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.kernel.operator_block import RowBlock
from penstock.share.operators.calls import OperatorCall

ROW: Final = "row"  # the number of a row in its commit; operators have names of other kinds


def outputs_table(blocks: Sequence[RowBlock], operators: Mapping[str, OperatorCall]) -> pa.Table:
    """Write numbers of rows, and for each operator values, what is computed, and errors."""
    columns: dict[str, pa.Array] = {ROW: pa.array(np.concatenate([block.numbers for block in blocks]), pa.int64())}
    for name, operator in operators.items():
        if any(name in block.values for block in blocks):
            known = [block.of(operator) for block in blocks]
            errors = [one.errors.get(row) for one in known for row in range(len(one.done))]
            columns[name] = pa.concat_arrays([one.array for one in known])
            columns[f"{name}?"] = pa.array(np.concatenate([one.done for one in known]))
            columns[f"{name}!"] = pa.array(errors, pa.string())
    return pa.table(columns)


def take_outputs(blocks: Sequence[RowBlock], operators: Mapping[str, OperatorCall], outputs: pa.Table) -> None:
    """Give blocks what was computed of them, and let go of the rows that had left."""
    at = 0
    for block in blocks:
        count = block.count
        if ROW in outputs.column_names:
            kept = np.isin(block.numbers, outputs[ROW].to_numpy())
            block.keep(kept)
            count = int(kept.sum())
        mine = outputs.slice(at, count)
        at += count
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
