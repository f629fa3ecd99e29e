"""Finds the rows that a user asks of a continuous query, or refuses what is asked."""

from __future__ import annotations

from penstock.catalog import Catalog
from penstock.errors import Unsupported, WrongType
from penstock.evaluate.typed import Definition
from penstock.kernel.versions import Version
from penstock.language.options import moment_us
from penstock.stream.continuous.query_rows import QueryRows
from penstock.stream.pipeline import Pipeline


def query_rows(catalog: Catalog, pipeline: Pipeline, definition: Definition, version: Version) -> QueryRows:
    """Return the rows of a query: of the definitions that have its columns, or of one version."""
    numbers = {n: e for n, e in catalog.editions(definition.name).items() if e.stream == definition.query.stream}
    if isinstance(version, int):
        numbers = {number: edition for number, edition in numbers.items() if edition.version == version}
    known = [catalog.edition(number) for number in numbers if number != definition.id]
    alike = [d for d in known if d is not None and d.query.is_continuous and d.typed.schema == definition.typed.schema]
    return QueryRows(pipeline, [*alike, definition] if definition.id in numbers or not alike else alike)


def refuse_limits(limit: int | None, since: str | None) -> None:
    """Refuse to look at part of the answers to windows."""
    if limit is not None or since is not None:
        what = "limit and since are for queries without a window"
        raise Unsupported(what, hint="Filter the table: results(name) has all answers to windows.")


def refuse_windows(definition: Definition) -> None:
    """Refuse to subscribe to answers to windows."""
    if not definition.query.is_continuous:
        what = f'query "{definition.name}" has a window; its answers cannot be subscribed to'
        raise Unsupported(what, hint="Read them from a sink, or create a stream of them: CREATE STREAM … AS SELECT.")


def read_moment(since: str) -> int:
    """Read a timestamp."""
    try:
        return moment_us(since)
    except ValueError:
        what = f'rows are asked for since a timestamp, not since "{since[:40]}"'
        raise WrongType(what, hint="Write it as 2026-01-05 09:30:00.") from None
