"""Implements ``penstock top``, a live table of how soon a running engine answers its queries and what each costs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import click

from penstock.cli.arguments import json_option, project_argument
from penstock.cli.locating import find_state, state_option
from penstock.cli.moments import clock_time
from penstock.cli.printing import say, say_json
from penstock.errors import PenstockError
from penstock.model.byte_sizes import format_bytes
from penstock.model.counts import counted
from penstock.model.duration import DAY, HOUR, MINUTE, SECOND
from penstock.printable import block, columns, shown

Queries = list[dict[str, Any]]
NARROWEST: Final = 80
WIDE: Final = 100
WITHOUT_TERMINAL: Final = 160  # columns, where the table goes to a file or a program
SHOWN: Final = 20  # queries, unless --limit says so
SHORTEST_S: Final = 0.1  # between two looks
ANSWERED_WITHIN_S: Final = 5.0
SORTS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "response": lambda query: -query["response"]["p95"],
    "slowdown": lambda query: -query["slowdown"]["p95"],
    "tardiness": lambda query: -query["tardiness"]["p95"],
    "staleness": lambda query: -(query["stale_s"] or 0.0),
    "seconds": lambda query: -seconds_of(query),
    "bytes": lambda query: -(query["bytes_sent"] + query["memory_bytes"]),
    "skipped": lambda query: -query["skipped"],
    "name": lambda query: query["query"].lower(),
}
HEAD: Final = ("query", "answers", "response", "slowdown", "tardy", "stale", "skipped", "seconds", "sent", "memory")
LEGEND: Final = (
    "answers: windows, or rows of a query without a window. response, slowdown, tardy (past its deadline): 95 % of the "
    "windows have no more. stale: how far the newest answer is behind the watermark. seconds, sent, memory: the "
    "query's share. All count from the engine's start."
)


def read_every(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Read the words of --every."""
    from penstock.language.duration import parse_duration

    try:
        return max(SHORTEST_S, parse_duration(value) / SECOND)
    except PenstockError as error:
        raise click.BadParameter(f"{error.what}; write '2 s'", ctx, param) from None


@click.command(short_help="Watch how soon queries are answered, and their costs.")
@project_argument
@state_option
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="seconds", show_default=True, help="By which figure.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show so many queries; by default 20.")
@click.option("--every", default="2 s", show_default=True, callback=read_every, help="How often to look again.")
@click.option("--once", is_flag=True, help="Show it once.")
@json_option
def top(
    project: Path, state: Path | None, sort: str, limit: int | None, every: float, once: bool, as_json: bool
) -> None:
    """Watch the queries of PROJECT's running engine until Ctrl-C: how soon each is answered, and what its share is.

    A shared piece of work is divided among the queries that share it, so the shares add up to the whole. With --json
    each look is a line, with all queries unless --limit says how many.

    \b
    Examples:
      penstock top
      penstock top --sort response --limit 5
      penstock top --once --json | jq '.queries[] | select(.past_deadline > 0) | .query'
    """
    folder = find_state(project, state).folder
    try:
        with _screen(live=not (once or as_json) and sys.stdout.isatty()) as show:
            for found in _looks(folder, every, once=once):
                found["queries"] = sorted(found["queries"], key=lambda query: (SORTS[sort](query), query["query"]))
                if as_json:
                    say_json({**found, "queries": found["queries"][:limit]})
                else:
                    show(top_text(found, limit or SHOWN, shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns))
    except KeyboardInterrupt:
        if once:
            raise


def _looks(folder: Path, every_s: float, *, once: bool) -> Iterator[dict[str, Any]]:
    """Ask the engine for its figures, again and again."""
    from penstock.control import ask_running

    while True:
        yield ask_running(folder, "metrics", {}, ANSWERED_WITHIN_S)
        if once:
            return
        time.sleep(every_s)


def _screen(*, live: bool) -> AbstractContextManager[Callable[[str], None]]:
    """Return what shows a text: in place of the one before on a terminal, otherwise below it."""
    return _Live() if live else nullcontext(say)


class _Live:
    """Shows texts on a terminal, each in place of the one before."""

    def __enter__(self) -> Callable[[str], None]:
        """Begin with nothing."""
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        live = self._live = Live(console=Console(highlight=False), auto_refresh=False)
        live.start()
        return lambda text: live.update(Text(block(text), no_wrap=True, overflow="crop"), refresh=True)

    def __exit__(self, *error: object) -> None:
        """Leave the last text where it is."""
        self._live.stop()


def top_text(found: dict[str, Any], limit: int, width: int) -> str:
    """Word the figures of an engine as a table for a terminal of some width."""
    queries: Queries = found["queries"]
    cells = [HEAD, *(_cells(query) for query in queries[:limit])]
    widths = [max(columns(row[place]) for row in cells) for place in range(len(HEAD))]
    width, gap = max(NARROWEST, width), "  " if width >= WIDE else " "
    widths[0] = max(8, min(widths[0], width - sum(widths[1:]) - len(gap) * len(widths[1:])))
    lines = [*wrap(_head(found), width), "", *(_line(row, widths, gap) for row in cells)]
    if len(queries) > limit:
        lines.append(f"… and {len(queries) - limit:,} more: --limit {len(queries)}")
    return "\n".join([*lines, "", *wrap(LEGEND, width)])


def _head(found: dict[str, Any]) -> str:
    """Word how the engine is as a whole."""
    lagging, late = (sum(stream[name] for stream in found["streams"]) for name in ("lagging", "past_deadline"))
    seconds, files = sum(found["seconds"].values()), sum(one["backlog"]["files"] or 0 for one in found["streams"])
    memory, disk = (sum(stream[f"{place}_bytes"] for stream in found["streams"]) for place in ("memory", "disk"))
    parts = [
        f"{counted(len(found['queries']), 'query', 'queries')} by {shown(found['policy'])}",
        f"{lagging:,} lagging" if lagging else "none lags",
        f"{counted(files, 'file')} to read" if files else "",
        f"{counted(late, 'window', 'windows')} tardy" if late else "",
        f"{length(seconds)} of work",
        f"{format_bytes(memory)} in memory",
        f"{format_bytes(disk)} on disk" if disk else "",
        _stages(found.get("overload") or {}),
    ]
    return f"{clock_time(found['clock_us']).partition('T')[2]}  " + ", ".join(part for part in parts if part)


def _stages(overload: dict[str, Any]) -> str:
    """Name the stages that are active because memory runs short."""
    active = [stage["stage"] for stage in overload.get("stages", ()) if stage["active"]]
    return f"overload: {', '.join(active)}" if active else ""


def _cells(query: dict[str, Any]) -> tuple[str, ...]:
    """Write the figures of a query."""
    told = query["windows"] > 0
    slowdown = f"{query['slowdown']['p95']:.3g}" if told else "-"
    times = (length(query["response"]["p95"]) if told else "-", slowdown, length(query["tardiness"]["p95"]))
    stale = "-" if query["stale_s"] is None else length(query["stale_s"])
    answers = f"{query['windows'] or query['rows']:,}"
    costs = length(seconds_of(query)), format_bytes(query["bytes_sent"]), format_bytes(query["memory_bytes"])
    return (shown(query["query"]), answers, *times, stale, f"{query['skipped']:,}", *costs)


def _line(row: Sequence[str], widths: Sequence[int], gap: str) -> str:
    """Put cells below each other: names to the left, figures to the right."""
    name, *figures = row
    if columns(name) > widths[0]:
        name = _cut(name, widths[0])
    cells = [name + " " * (widths[0] - columns(name))]
    return gap.join([*cells, *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))]).rstrip()


def _cut(name: str, width: int) -> str:
    """Leave the middle of a name out: names of a project often begin alike."""
    last = len(name)
    while last and columns(name[last - 1 :]) <= width // 2:
        last -= 1
    first = len(name)
    while columns(name[:first]) > width - 1 - columns(name[last:]):
        first -= 1
    return f"{name[:first]}…{name[last:]}"


def seconds_of(query: dict[str, Any]) -> float:
    """Add the seconds of all steps up."""
    return float(sum(query["seconds"].values()))


def length(seconds: float) -> str:
    """Write a length in few letters: ``80 ms``, ``1.2 s``, ``3.5 min``."""
    if not seconds:
        return "0"
    if seconds < 1:
        return "<1 ms" if seconds < 0.001 else f"{seconds * 1000:.0f} ms"
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit / SECOND:
            return f"{seconds * SECOND / unit:,.1f} {name}"
    return f"{seconds:.1f} s"
