"""``penstock calibrate``: a number of rows comes in; what each step costs on this machine goes out, and is kept."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from penstock.cli.arguments import json_option


@click.command(short_help="Measure what each step costs here, for --strategy weave.")
@click.option("--rows", type=click.IntRange(10_000), default=400_000, show_default=True, help="Trades a run.")
@click.option(
    "--repetitions", type=click.IntRange(1, 20), default=3, show_default=True, help="Runs of each kind, once warm."
)
@click.option("--dry-run", is_flag=True, help="Keep nothing.")
@json_option
def calibrate(rows: int, repetitions: int, dry_run: bool, as_json: bool) -> None:
    """Measure the unit costs that trees are woven by, with short runs over generated trades.

    The rates are kept with a description of this machine in ~/.penstock/rates.json (or in the folder that PENSTOCK_HOME
    names); engines on this machine take them from there.

    \b
    Examples:
      penstock calibrate
      penstock calibrate --rows 1000000 --dry-run
    """
    from penstock.calibrate import calibrate as measured
    from penstock.store.rates import keep_rates

    found = measured(rows, repetitions, lambda words: click.echo(words, err=True))
    click.echo(json.dumps({"rates": asdict(found.rates), "rows": rows}) if as_json else str(found))
    if not dry_run:
        click.echo(f"kept in {keep_rates(found.rates)}", err=True)
