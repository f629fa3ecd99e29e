"""Implements ``penstock explain``, which shows what queries share, as text, JSON or a page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.arguments import json_option, project_argument, query_names, strategy_option
from penstock.cli.printing import say, say_json
from penstock.cli.reporting import table_text
from penstock.cli.working import Working, working
from penstock.errors import SinkError, UnknownQuery, nearest
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.share.explain.explanation import (
        ConditionPlan,
        Explanation,
        GroupingPlan,
        QueryPlan,
        StreamPlan,
        TreePlan,
    )


@click.command(short_help="Show what queries share, as text, JSON or a page.")
@project_argument
@click.option(
    "--query", metavar="NAME", shell_complete=query_names, help="Only this query, and the queries it shares with."
)
@click.option(
    "--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with a picture of the plan."
)
@click.option(
    "--what-if",
    "what_if",
    metavar="SQL",
    help="Which tree this query would join and what it would cost, without adding it.",
)
@json_option
@strategy_option
def explain(
    project: Path, query: str | None, page: Path | None, what_if: str | None, as_json: bool, strategy: str | None
) -> None:
    """Show who shares what: streams, slices, groupings, conditions, queries.

    PROJECT is a project folder (default: the current one) or a file of SQL statements. The plan has edge rates, how a
    row finds its slice, and counted operations shared and alone. Starts Spark, which types the queries; reads no rows.

    \b
    Examples:
      penstock explain
      penstock explain --query vwap
      penstock explain market --html sharing.html
      penstock explain --what-if "SELECT count(*) AS n FROM trades [RANGE 1 MIN SLIDE 10 s]"
    """
    if query is not None and page is not None:
        raise click.UsageError("--html shows all queries; leave --query out")
    if what_if is not None and (query is not None or page is not None):
        raise click.UsageError("--what-if is about one more query; leave --query and --html out")
    with working(project, strategy=strategy) as at_work:
        _tell_of_running(at_work)
        if what_if is not None:
            told = at_work.engine.what_if(what_if)
            _tell(told.to_dict(), str(told), as_json)
            return
        explanation = at_work.engine.explain()
        if query is not None:
            found = _about(query, explanation, at_work)
            _tell(found, _about_text(found), as_json)
        elif as_json:
            say_json(explanation.to_dict())
        elif page is None:
            say("\n\n".join([*(table_text(table) for table in at_work.told), str(explanation)]))
    if page is not None:
        _write_page(page, explanation)


def _tell_of_running(at_work: Working) -> None:
    """Say that the plan is not that of an engine, where one runs on the project's state folder."""
    from penstock.store.folder import StateFolder

    folder = None if at_work.project is None else at_work.project.settings.state
    owner = None if folder is None else StateFolder.owner(folder)
    if owner is not None:
        what = f"an engine runs on {folder} ({owner}): this is the plan of the project's files, not of that engine"
        say(f"{shown(what)}; penstock queries lists what it answers", err=True)


def _tell(found: dict[str, Any], words: str, as_json: bool) -> None:
    """Print what was found, for programs or for people."""
    if as_json:
        say_json(found)
    else:
        say(words)


def _write_page(path: Path, explanation: Explanation) -> None:
    """Write the page."""
    from penstock.report.page import explain_page

    try:
        path.write_text(explain_page(explanation), encoding="utf-8")
    except OSError as error:
        raise SinkError(f"cannot write {path}: {error.strerror}") from None
    say(f"wrote {shown(str(path))}", err=True)


def _about(name: str, explanation: Explanation, at_work: Working) -> dict[str, Any]:
    """Find a query in the plan, with those that share its slices, partials and rows."""
    stream, tree, grouping, condition, own = _position(name, explanation)
    file = at_work.project.query(own.name) if at_work.project else None
    partials = {"group_by": list(grouping.keys), "of": list(grouping.partials), "with": _others(grouping.queries, own)}
    return {
        "query": own.name,
        "file": file.file if file else None,
        "description": file.description if file else "",
        "text": at_work.engine.catalog.query(own.name).query.text,
        "stream": stream.stream,
        "window": str(own.window),
        "slices": {"tree": tree.name, "with": _others(tree.queries, own)},
        "partials": partials,
        "rows": {"condition": condition.text, "with": _others(condition.queries, own)},
    }


def _position(
    name: str, explanation: Explanation
) -> tuple[StreamPlan, TreePlan, GroupingPlan, ConditionPlan, QueryPlan]:
    """Find where a query stands in the plan."""
    for stream in explanation.streams:
        for tree in stream.trees:
            for grouping in tree.groupings:
                for condition in grouping.conditions:
                    for query in condition.queries:
                        if query.name.lower() == name.lower():
                            return stream, tree, grouping, condition, query
    known = [query.name for query in explanation.queries]
    raise UnknownQuery(f'there is no query "{name}"', detail=f"queries: {', '.join(known)}", hint=nearest(name, known))


def _others(queries: Iterable[QueryPlan], own: QueryPlan) -> list[str]:
    """Name the other queries."""
    return [query.name for query in queries if query is not own]


def _about_text(found: dict[str, Any]) -> str:
    """Word what a query shares."""
    head = f"query {found['query']} over {found['stream']} {found['window']}"
    lines = [head + (f"  ({found['file']})" if found["file"] else "")]
    lines += [f"  -- {line}" for line in found["description"].splitlines()]
    lines.append(f"  {found['text']}")
    by = ", ".join(found["partials"]["group_by"]) or "()"
    lines.append(f"shares slices with {_listed(found['slices']['with'])}")
    partials = ", ".join(found["partials"]["of"])
    lines.append(f"  partials by {by} ({partials}) with {_listed(found['partials']['with'])}")
    lines.append(f"  its condition ({found['rows']['condition']}) with {_listed(found['rows']['with'])}")
    return "\n".join(map(shown, lines))


def _listed(names: list[str]) -> str:
    """List names, shortened."""
    if not names:
        return "no other query"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
