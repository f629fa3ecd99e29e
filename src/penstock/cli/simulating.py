"""``penstock sim``: a scenario file comes in; what each policy would have done goes out as table, plots and JSON."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from penstock.project.scenario import Scenario
    from penstock.sim.metrics import Outcome


@click.command(short_help="Try scheduling policies on recorded or drawn arrivals.")
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="SCENARIO.yml")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write table and plots as a page.")
def sim(path: Path, as_json: bool, html: Path | None) -> None:
    """Simulate the queries of SCENARIO.yml under each of its policies.

    The same seed gives the same figures. Needs no Spark.

    \b
    Examples:
      penstock sim examples/policies.yml
      penstock sim examples/policies.yml --html policies.html
    """
    from penstock.project.scenario import read_scenario

    scenario, reading = read_scenario(path)
    if scenario is None:
        for problem in reading.problems:
            click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1)
    found = _outcomes(scenario)
    rows = [_row(name, scenario, outcome) for name, outcome in found.items()]
    if as_json:
        click.echo(json.dumps({"seed": scenario.seed, "policies": rows}, indent=2))
    else:
        _print(rows)
    if html is not None:
        html.write_text(_page(path.stem, rows, found), encoding="utf-8")


def _outcomes(scenario: Scenario) -> dict[str, Outcome]:
    """Run every policy, with progress on a terminal."""
    from penstock.sim import fates
    from penstock.sim.network import network
    from penstock.sim.run import run

    net, values = network(scenario.queries), fates.uniform(len(scenario.arrivals), scenario.attributes, scenario.seed)
    found = {}
    for policy in scenario.policies:
        _say(f"{policy}")
        found[policy.name] = run(
            net,
            scenario.arrivals,
            values,
            policy,
            scenario.settings,
            report=partial(_progress, policy.name),
        )
    return found


def _progress(name: str, share: float) -> None:
    """Tell how much of a run is done."""
    _say(f"{name} {share:.0%}")


def _say(words: str) -> None:
    """Tell how far it is, to a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"simulating {words}", err=True)


def _row(name: str, scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    """Sum one policy's outcome up."""
    from penstock.sim.metrics import summary

    begin, end = float(scenario.arrivals.time[0]), max(outcome.end, float(scenario.arrivals.time[-1]) + 1e-12)
    response, slowdown = summary(outcome.response), summary(outcome.slowdown)
    return {
        "policy": name,
        "answers": response.count,
        "response_average": response.average,
        "response_maximum": response.maximum,
        "response_norm": response.norm,
        "slowdown_average": slowdown.average,
        "slowdown_maximum": slowdown.maximum,
        "slowdown_norm": slowdown.norm,
        "staleness": float(outcome.staleness(begin, end).mean()),
        "memory_average": outcome.memory_average,
        "memory_peak": outcome.memory_peak,
        "scheduling_points": outcome.points,
    }


COLUMNS = ("response_average", "response_maximum", "slowdown_average", "slowdown_maximum", "staleness", "memory_peak")


def _print(rows: list[dict[str, Any]]) -> None:
    """Print a line a policy."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Policies", title_justify="left")
    table.add_column("policy")
    for column in ("answers", *COLUMNS):
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(row["policy"], f"{row['answers']:,}", *(f"{row[c]:,.4g}" for c in COLUMNS))
    Console(width=130).print(table)


def _page(title: str, rows: list[dict[str, Any]], found: dict[str, Outcome]) -> str:
    """Show the table, and how answers' responses and slowdowns are spread."""
    import numpy as np

    from penstock.report.curves import Curve, curve_chart
    from penstock.report.markup import section, table
    from penstock.report.page import page

    shares = np.linspace(0, 100, 41)
    charts = []
    for name in ("response", "slowdown"):
        curves = []
        for policy, outcome in found.items():
            values = np.percentile(getattr(outcome, name), shares) if len(outcome.done) else np.zeros(len(shares))
            curves.append(Curve(policy, tuple(zip(shares.tolist(), values.tolist(), strict=True))))
        charts.append(
            curve_chart(f"{name} by percentile", curves, across="percent of answers", upward=name, powers=True)
        )
    cells = [[row["policy"], f"{row['answers']:,}", *(f"{row[c]:,.4g}" for c in COLUMNS)] for row in rows]
    heads = ("policy", "answers", *(c.replace("_", " ") for c in COLUMNS))
    plots = f'<div class="charts two">{"".join(charts)}</div>'
    return page(f"Policies: {title}", [section("Figures", table(heads, cells, numbers=range(1, 8)), plots)])
