"""Estimates with sketches how many partials each possible grouping of a batch would have.

HyperLogLog++ (Heule, Nunkesser and Hall 2013) counts the distinct (slice, cells, keys) of every candidate at once,
within a few percent and in a few kilobytes, where rows would have to be aggregated for each to know it exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.share.grouping_rollup import Estimate, Keys, candidates
from penstock.share.layout import Member
from penstock.spark.job.jvm_columns import size_in_bytes, written
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ERROR: Final = 0.05  # of a sketch, relative


def estimate(
    job: PartialsJob, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds
) -> dict[str, Estimate]:
    """Estimate, tree by tree, what the groupings of a layout and their unions would be made of."""
    writer, layout = job.writer, job.layout
    asked: dict[tuple[int, Keys, bool], str] = {}  # tree, keys, whether groups are counted and not partials
    for number, tree in enumerate(layout.plan.trees):
        members = [m for m in layout.members if m.tree == number]
        for keys in candidates(tree.groupings):
            label = [] if writer.direct else [writer.placed(number)]
            asked[number, keys, False] = _hashed(writer, keys, members, label)
        for member in members:
            if member.grouping.keys:
                asked[number, member.grouping.keys, True] = _hashed(writer, member.grouping.keys, [member], None)
    # Sketches evaluate what they count without generated code, so it is computed in a step of its own before them.
    hashed = [written(text, f"h{i}") for i, text in enumerate(asked.values())]
    told_apart = job.rows(batch, tables, bounds).select(written(writer.valid, "valid"), *hashed)
    counted = [written(f"approx_count_distinct(h{i}, {ERROR}D)", f"n{i}") for i in range(len(asked))]
    found = told_apart.agg(written("count_if(valid)", "rows"), *counted).toArrow()
    numbers = found.to_pylist()[0]
    sizes: dict[tuple[int, bool], dict[Keys, float]] = {}
    for i, (number, keys, groups) in enumerate(asked):
        sizes.setdefault((number, groups), {})[keys] = float(numbers[f"n{i}"])
    rows = float(numbers["rows"])
    return {
        tree.name: Estimate(rows, sizes.get((number, False), {}), sizes.get((number, True), {}))
        for number, tree in enumerate(layout.plan.trees)
    }


def _hashed(writer: Writer, keys: Keys, members: Sequence[Member], label: Sequence[str] | None) -> str:
    """Write what tells a grouping's partials apart, or its groups without a ``label``, as a number.

    It is NULL where none of the groupings takes the row which it could feed.
    """
    fed = [m for m in members if set(m.grouping.keys) <= set(keys)]
    cells = [name for m in fed if m.signed for name in writer.columns_of(m)] if label is not None else []
    taken = " OR ".join("true" if not m.signed else f"{name} > 0" for m in fed for name in writer.columns_of(m))
    hashed = ", ".join([*(label or ()), *cells, *(writer.value(key) for key in keys)]) or "0"
    return f"IF({writer.valid} AND ({taken}), xxhash64({hashed}), NULL)"


def is_large(batch: DataFrame, least_bytes: int) -> bool:
    """Tell whether a batch may be large by what Spark knows of its files, without reading them; unknown: it may be."""
    return size_in_bytes(batch) >= least_bytes
