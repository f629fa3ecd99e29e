"""Computes a join's condition and outputs over pairs in Arrow, where these mean the same there as in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.expressions.compile import Compiled, compile_expression
from penstock.evaluate.expressions.ddl import arrow_type
from penstock.evaluate.finishing import INSTANT
from penstock.kernel.join_index import TIME
from penstock.model.schema import Column
from penstock.model.stream_join import StreamJoin


@dataclass(frozen=True, slots=True)
class PairOutputs:
    """A join's condition and outputs, ready to run."""

    where: Compiled | None
    outputs: tuple[Compiled, ...]
    names: tuple[str, ...]  # of the outputs, then of the event time

    @classmethod
    def of(cls, join: StreamJoin, columns: Sequence[Column], types: Mapping[str, pa.DataType]) -> Self | None:
        """Compile what a join asks of pairs with columns of some types; None: Spark has to compute it."""
        where = None if join.where is None else compile_expression(join.where, types)
        outputs = [compile_expression(output.expression, types) for output in join.outputs]
        if join.where is not None and (where is None or where.type != pa.bool_()):
            return None
        found = [one for one in outputs if one is not None]
        same = all(one.type == arrow_type(column.type) for one, column in zip(found, columns, strict=False))
        if len(found) < len(outputs) or not same:
            return None
        return cls(where, tuple(found), tuple(column.name for column in columns))

    def rows(self, pairs: pa.Table) -> pa.Table | None:
        """Compute the rows of the joined stream; None: something failed on a pair, and Spark has to tell of what."""
        if self.where is not None and pairs.num_rows:
            asked = self.where(pairs)
            if asked.failed is not None and asked.failed.any():
                return None
            pairs = pairs.filter(pc.fill_null(asked.array, False))
        if not pairs.num_rows:
            return pa.table({name: pa.array([], INSTANT) for name in self.names})
        found = [output(pairs) for output in self.outputs]
        if any(one.failed is not None and np.any(one.failed) for one in found):
            return None
        times = pairs[TIME].cast(pa.int64()).combine_chunks().view(INSTANT)
        return pa.table([*(one.array for one in found), times], names=list(self.names))
