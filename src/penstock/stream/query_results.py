"""Collects what the definitions of a query have answered, for whoever asks for its results."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.evaluate.typed import Definition
from penstock.kernel.versions import ShownVersions
from penstock.model.window import RowsWindow
from penstock.store.answers import answers_of
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_windows import NEVER


def shown_versions(
    catalog: Catalog, pipeline: Pipeline, definition: Definition, elsewhere: Mapping[int, list[pa.Table]]
) -> ShownVersions:
    """Collect a query's answers by version; ``elsewhere`` has those of versions that read another stream."""
    own = {e.version: n for n, e in catalog.editions(definition.name).items() if e.version not in elsewhere}
    said = dict(elsewhere) | {version: answers_of(pipeline.answers, [n]) for version, n in own.items()}
    executor_state, by_rows = pipeline.executor_state, isinstance(definition.query.window, RowsWindow)
    order = {} if executor_state is None else executor_state.orders(own, catalog.edition)
    begins = NEVER if by_rows else pipeline.progress.windows.starts.get(definition.id)
    begins_us = -NEVER if begins is None else begins
    return ShownVersions(dict(sorted(said.items())), definition.typed.schema, begins_us, order)
