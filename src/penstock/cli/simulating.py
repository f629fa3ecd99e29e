"""Implements ``penstock sim``, which simulates the policies of a scenario, as tables, plots and JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.arguments import Until, read_until
from penstock.cli.printing import say, say_json, unmarked
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.project.scenario import Scenario
    from penstock.sim.metrics import SimOutcome


@click.command(short_help="Try scheduling policies on recorded or drawn arrivals, or on what an engine did.")
@click.argument(
    "path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="[SCENARIO.yml]", required=False
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write table and plots as a page.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="STATE",
    help="Replay what an engine did, as its state folder tells; a project names its own.",
)
@click.option("--policy", metavar="NAMES", help="With --trace: policies to replay it under, such as HNR,BSD,EDF.")
@click.option("--since", callback=read_until, metavar="WHEN", help="With --trace: leave out what was before.")
@click.option("--until", callback=read_until, metavar="WHEN", help="With --trace: leave out what came later.")
def sim(
    path: Path | None,
    as_json: bool,
    html: Path | None,
    trace: Path | None,
    policy: str | None,
    since: Until | None,
    until: Until | None,
) -> None:
    """Simulate the queries of SCENARIO.yml under each of its policies, or replay what an engine did under others.

    The same seed gives the same figures. Needs no Spark. With --trace, what ran and what would have stand side by
    side; WHEN is a time (2026-01-05T15:00:00, UTC unless it says otherwise) or so long ago ('1 h').

    \b
    Examples:
      penstock sim examples/policies.yml
      penstock sim examples/policies.yml --html policies.html
      penstock sim --trace state --policy HNR,BSD,EDF
      penstock sim --trace market --since '1 d'
    """
    if (path is None) == (trace is None):
        raise click.UsageError("name a scenario, or a state folder with --trace")
    if trace is not None:
        from penstock.cli.replaying import replay_trace

        if html is not None:
            raise click.UsageError("--html needs a scenario")
        replay_trace(trace, policy, since, until, as_json=as_json)
        return
    if (policy, since, until) != (None, None, None):
        raise click.UsageError("--policy, --since and --until need --trace")
    assert path is not None
    _simulate(path, as_json, html)


def _simulate(path: Path, as_json: bool, html: Path | None) -> None:
    """Simulate a scenario, and print it."""
    from penstock.project.scenario import read_scenario

    scenario, reading = read_scenario(path)
    if scenario is None:
        for problem in reading.problems:
            say(problem, err=True)
        raise click.exceptions.Exit(1)
    rows, found = [], {}
    for policy, outcome in _outcomes(scenario):
        rows.append(_told(policy, scenario, outcome))
        found[policy] = outcome
    if as_json:
        say_json({"seed": scenario.seed, "policies": rows}, indent=2)
    else:
        _print(rows)
    if html is not None:
        html.write_text(_page(path.stem, rows, found), encoding="utf-8")


def _outcomes(scenario: Scenario) -> Iterator[tuple[str, SimOutcome]]:
    """Run every policy, with progress on a terminal."""
    from penstock.sim import fates
    from penstock.sim.network import network
    from penstock.sim.run import run, warm

    net, values = network(scenario.queries), fates.uniform(len(scenario.arrivals), scenario.attributes, scenario.seed)
    with _bar(len(scenario.policies)) as say:
        say("nothing yet: compiling, once on this machine", 0.0)
        warm(scenario.policies)
        for number, policy in enumerate(scenario.policies):
            say(policy.name, float(number))
            report = partial(_report, say, policy.name, number)
            yield policy.name, run(net, scenario.arrivals, values, policy, scenario.settings, report=report)


def _report(say: Callable[[str, float], None], name: str, number: int, share: float) -> None:
    """Tell how much of a run is done."""
    say(name, number + share)


@contextmanager
def _bar(steps: int) -> Iterator[Callable[[str, float], None]]:
    """Show a bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda name, done: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=steps)
        yield lambda name, done: progress.update(task, completed=done, description=escape(shown(f"simulating {name}")))


def _told(name: str, scenario: Scenario, outcome: SimOutcome) -> dict[str, Any]:
    """Put the numbers of one policy together."""
    import numpy as np

    from penstock.project.scenario_queries import class_of_queries
    from penstock.sim.telling import by_class, in_all, over_time

    begin, last = float(scenario.arrivals.time[0]), float(scenario.arrivals.time[-1])
    slides = np.array([getattr(q, "slide", 0.0) for q in scenario.queries for _ in getattr(q, "members", (0,))])
    classes = class_of_queries(scenario.entries)
    return {
        "policy": name,
        **in_all(outcome, slides, begin, last, scenario.metrics),
        "classes": by_class(outcome, classes, slides, begin, last, scenario.metrics),
        "over_time": over_time(outcome, last, scenario.metrics),
    }


COLUMNS: Final = (
    *("response_average", "response_maximum", "slowdown_average", "slowdown_maximum"),
    *("tardiness_average", "staleness", "memory_peak"),
)


def _cells(rows: list[dict[str, Any]], first: str) -> tuple[list[str], list[list[str]]]:
    """Choose the columns that are there, and write their numbers."""
    columns = [c for c in COLUMNS if any(c in row for row in rows)]
    heads = [first, "answers", *(c.replace("_", " ") for c in columns)]
    cells = [
        [row[first], f"{row['answers']:,}", *(f"{row[c]:,.4g}" if c in row else "" for c in columns)] for row in rows
    ]
    return heads, cells


def _of_classes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """List the classes of all policies, class by class."""
    return [
        {"class": f"{name}, {row['policy']}", **row["classes"][name]} for name in rows[0]["classes"] for row in rows
    ]


def _print(rows: list[dict[str, Any]]) -> None:
    """Print a line a policy, then a line a class and policy."""
    from rich.console import Console
    from rich.table import Table

    tables = [("Policies", rows, "policy")]
    if rows and len(rows[0]["classes"]) > 1:
        tables.append(("Classes of queries", _of_classes(rows), "class"))
    for title, lines, first in tables:
        table = Table(title=title, title_justify="left")
        heads, cells = _cells(lines, first)
        for head in heads:
            table.add_column(head, justify="left" if head == first else "right")
        for cell in cells:
            table.add_row(*map(unmarked, cell))
        Console(width=140).print(table)


def _page(title: str, rows: list[dict[str, Any]], found: dict[str, SimOutcome]) -> str:
    """Show the tables, how answers' responses and slowdowns are spread, and how everything went over time."""
    from penstock.report.markup import section, table
    from penstock.report.page import page

    charts = [_spread(name, found) for name in ("response", "slowdown")]
    charts += [chart for name in OVER_TIME if (chart := _over_time(name, rows)) is not None]
    heads, cells = _cells(rows, "policy")
    class_heads, class_cells = _cells(_of_classes(rows), "class") if rows else ([], [])
    plots = f'<div class="charts two">{"".join(f"<div>{chart}</div>" for chart in charts)}</div>'
    parts = [
        section("Policies", table(heads, cells, numbers=range(1, len(heads))), plots),
        section("Classes of queries", table(class_heads, class_cells, numbers=range(1, len(class_heads)))),
    ]
    return page(f"Policies: {title}", parts)


OVER_TIME: Final = {
    "response_average": "response over time",
    "slowdown_average": "slowdown over time",
    "memory_peak": "tuples in queues over time",
}


def _spread(name: str, found: dict[str, SimOutcome]) -> str:
    """Draw a measure by percentile."""
    import numpy as np

    from penstock.report.curves import Curve, curve_chart

    shares, curves = np.linspace(0, 100, 41), []
    for policy, outcome in found.items():
        values = np.percentile(getattr(outcome, name), shares) if len(outcome.done) else np.zeros(len(shares))
        curves.append(Curve(policy, tuple(zip(shares.tolist(), values.tolist(), strict=True))))
    return curve_chart(f"{name} by percentile", curves, across="percent of answers", upward=name, powers=True)


def _over_time(name: str, rows: list[dict[str, Any]]) -> str | None:
    """Draw a measure over time, if it was asked for."""
    from penstock.report.curves import Curve, curve_chart

    curves = []
    for row in rows:
        points = [(part["until"], part[name]) for part in row["over_time"] if part.get(name) is not None]
        curves.append(Curve(row["policy"], tuple(points)))
    if not any(curve.points for curve in curves):
        return None
    return curve_chart(OVER_TIME[name], curves, across="time", upward=name.replace("_", " "))
