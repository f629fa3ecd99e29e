"""Collects what the definitions of a query have answered, for whoever asks for its results."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.evaluate.typed import Definition
from penstock.kernel.revisions import ROW, SortedBy, is_revised
from penstock.kernel.versions import ShownVersions
from penstock.model.window import RowsWindow
from penstock.share.plan import is_session
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
    by = {} if executor_state is None else executor_state.orders(own, catalog.edition)
    apart = {version: own[version] for version in own if any(map(_is_sorted_anew, said[version]))}
    order = {version: _order_of(catalog.edition(number)) for version, number in apart.items()}
    begins = NEVER if by_rows else pipeline.progress.windows.starts.get(definition.id)
    begins_us = -NEVER if begins is None else begins
    editions = {version: catalog.edition(number) for version, number in own.items()}
    sessions = {version for version, one in editions.items() if one is not None and is_session(one)}
    return ShownVersions(dict(sorted(said.items())), definition.typed.schema, begins_us, by, order, sessions)


def _is_sorted_anew(answers: pa.Table) -> bool:
    """Tell whether answers are put in order when they are read; others were written in the order of ORDER BY."""
    return is_revised(answers) or ROW in answers.column_names


def _order_of(definition: Definition | None) -> list[SortedBy]:
    """Say by which outputs ORDER BY sorts; where answers are revised, it names no others."""
    if definition is None:
        return []
    names = {output.expression: output.name for output in definition.query.outputs}
    return [(names.get(key.expression, ""), key.descending, key.nulls_first) for key in definition.query.order]
