"""Implements ``penstock calibrate``, which measures and keeps what each step costs on this machine.

``penstock capacity`` stands beside it, as it foretells by these costs.
"""

from __future__ import annotations

from dataclasses import asdict

import click

from penstock.cli.arguments import json_option
from penstock.cli.capacity import capacity
from penstock.cli.printing import say, say_json
from penstock.printable import shown

__all__ = ["calibrate", "capacity"]


@click.command(short_help="Measure what each step costs here, to decide what is shared.")
@click.option("--rows", type=click.IntRange(10_000), default=400_000, show_default=True, help="Trades per run.")
@click.option(
    "--repetitions",
    type=click.IntRange(1, 20),
    default=3,
    show_default=True,
    help="Timed runs of each kind, after the warm-up.",
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

    found = measured(rows, repetitions, lambda words: say(words, err=True))
    if as_json:
        say_json({"rates": asdict(found.rates), "rows": rows})
    else:
        say(found)
    if not dry_run:
        say(f"kept in {shown(str(keep_rates(found.rates)))}", err=True)
