"""Finds the rows that a user asks of a continuous query, or refuses what is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.catalog import Catalog
from penstock.errors import UnknownQuery, Unsupported, WrongType
from penstock.evaluate.typed import EACH_ROW, Definition
from penstock.kernel.versions import VERSION, Version
from penstock.language.options import moment_us
from penstock.stream.continuous.query_rows import Place, QueryRows
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_windows import NEVER


def shown_rows(
    catalog: Catalog, pipeline: Pipeline, definition: Definition, version: Version, limit: int | None, since: str | None
) -> pa.Table:
    """Return the rows of a query as they stand, those of one version, or all with the version of each."""
    if limit is not None and limit < 0:
        raise WrongType(f"limit is a number of rows, not {limit}", hint="limit=100 returns the newest hundred.")
    since_us = None if since is None else _read_moment(since)
    if version is None:
        return query_rows(catalog, pipeline, definition).newest(limit, since_us)
    known = {catalog.version_of(one.id): one for one in _answering(catalog, definition)}
    if version == "all":
        return _all_versions({number: QueryRows(pipeline, [one]) for number, one in known.items()}, limit, since_us)
    if version not in known:
        detail = f"its versions without a window: {', '.join(map(str, known))}"
        raise UnknownQuery(f"the query has no version {version}", detail=detail)
    return QueryRows(pipeline, [known[version]]).newest(limit, since_us)


def query_rows(catalog: Catalog, pipeline: Pipeline, definition: Definition) -> QueryRows:
    """Return the rows of the definitions of a query that have its columns, each as the last of them that took it."""
    chosen = _alike(catalog, definition)
    return QueryRows(pipeline, chosen, _taken_again(chosen, pipeline, pipeline.progress.windows.past_taken))


def subscribed_rows(catalog: Catalog, pipeline: Pipeline, definition: Definition, edition: int) -> QueryRows:
    """Return the rows of a query as one is told of them who began at a definition: none of them twice.

    What that definition or an earlier one takes again of the past comes with the later of them. What later definitions
    take again is not told once more.
    """
    chosen = _alike(catalog, definition)
    known = [one for one in chosen if one.id <= edition]
    asked = {one.id for one in known}
    return QueryRows(pipeline, chosen, _taken_again(known, pipeline, asked), edition)


def edition_at(catalog: Catalog, pipeline: Pipeline, definition: Definition, after: Place | None) -> int:
    """Return the newest definition whose past is among the rows that a subscription is given, from its place on.

    A place of an earlier version does not say so: then it is the one that took the rows of its commit, or the last one
    before.
    """
    if after is None:
        return definition.id
    if len(after) == 3:
        return int(after[2])
    own, log = {one.id for one in _answering(catalog, definition)}, pipeline.continuous.rows
    for commit in reversed([one for one in log.commits() if one.number <= after[0]]):
        if took := own & log.plan(commit.plan)[0].by_definition.keys():
            return max(took)
    return definition.id


def _alike(catalog: Catalog, definition: Definition) -> list[Definition]:
    """List the definitions of a query that have its columns, the one it has now last."""
    *earlier, last = _answering(catalog, definition)
    return [*(one for one in earlier if one.typed.schema == last.typed.schema), last]


def _answering(catalog: Catalog, definition: Definition) -> list[Definition]:
    """List the definitions of a query that answer rows of its stream, the one it has now last."""
    editions = catalog.editions(definition.name).items()
    numbers = [number for number, one in editions if one.stream == definition.query.stream and number != definition.id]
    known = [catalog.edition(number) for number in numbers]
    return [*(one for one in known if one is not None and one.query.is_continuous), definition]


def _all_versions(rows: Mapping[int, QueryRows], limit: int | None, since_us: int | None) -> pa.Table:
    """Show the rows of all versions, each with its own, also those that a later version took again."""
    tables = []
    for version, mine in rows.items():
        table = mine.newest(limit, since_us)
        numbers = pa.array(np.full(table.num_rows, version, np.int32))
        tables.append(table.add_column(len(EACH_ROW), VERSION, numbers))
    try:
        whole = pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        what = "versions of the query have columns of the same name and different types"
        raise WrongType(what, detail=str(error), hint="Ask for one at a time: version=1.") from None
    whole = whole.sort_by([(name, "ascending") for name in ("commit", "event_time", "ordinal", VERSION)])
    return whole if limit is None else whole.slice(max(0, whole.num_rows - limit))


def _taken_again(definitions: Sequence[Definition], pipeline: Pipeline, known: Collection[int]) -> dict[int, int]:
    """Find from when on later definitions that asked for the past took the rows of earlier ones.

    ``known`` are those that have it, or will have.
    """
    found, until_us = dict[int, int](), NEVER
    for definition in reversed(definitions):
        if until_us < NEVER:
            found[definition.id] = until_us
        since = pipeline.continuous.asked_since(definition.typed) if definition.id in known else None
        if since is not None:
            until_us = min(until_us, since if isinstance(since, int) else -NEVER)
    return found


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


def _read_moment(since: str) -> int:
    """Read a timestamp."""
    try:
        return moment_us(since)
    except ValueError:
        what = f'rows are asked for since a timestamp, not since "{since[:40]}"'
        raise WrongType(what, hint="Write it as 2026-01-05 09:30:00.") from None
