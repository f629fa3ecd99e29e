"""Hangs up a wall of alerts: a thousand rules without a window over all trades, in a pass of their own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.demo.market import Files, enter_market
from penstock.engine import Engine
from penstock.sinks.protocol import Progressing
from penstock.spark.market import EXCHANGES

RULES: Final = 1_000
READER: Final = "alerts"
SIDES: Final = {"B": "bought", "S": "sold"}
SHOWN: Final = 12
LEAST: Final = 20_000  # shares


@dataclass(frozen=True, slots=True)
class Alerts:
    """What the wall of alerts showed."""

    rules: int
    rows: int  # trades that some rule takes, each once
    alerts: int  # pairs of a trade and a rule
    seconds: float
    latest: pa.Table

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {"rules": self.rules, "rows": self.rows, "alerts": self.alerts, "seconds": self.seconds}


class Wall:
    """A sink that counts alerts and keeps the latest; it is its own writer."""

    def __init__(self) -> None:
        """Begin with an empty wall."""
        self.rows, self.alerts, self.delivered = 0, 0, -1
        self.latest: list[pa.Table] = []

    def open(self, stream: str, memory: Progressing) -> Wall:
        """Show the one stream of the demo."""
        return self

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take the rows of a batch, each with the list of the rules that take it."""
        for table in tables:
            self.rows += table.num_rows
            self.alerts += pc.sum(pc.list_value_length(table["queries"])).as_py() or 0
            self.latest = [pa.concat_tables([*self.latest, table.slice(max(0, table.num_rows - SHOWN))])]
        self.delivered = number

    def roll(self) -> None:
        """Do nothing: what is on the wall is already seen."""


def draw_rules(number: int) -> dict[str, str]:
    """Write rules by name: an exchange, a side, and a number of shares from which on a trade is worth an alert."""
    places = itertools.islice(itertools.cycle(itertools.product(EXCHANGES, SIDES)), number)
    rules: dict[str, str] = {}
    for place, (exchange, side) in enumerate(places):
        least = LEAST + 250 * place
        select = "SELECT symbol, price, volume, exchange FROM trades"
        where = f"exchange = '{exchange}' AND side = '{side}' AND volume >= {least}"
        rules[f"{exchange.lower()}_{SIDES[side]}_{least}"] = f"{select} WHERE {where}"
    return rules


def show_alerts(engine: Engine, files: Files, number: int = RULES) -> Alerts:
    """Run the rules over all files in an engine of their own."""
    wall = Wall()
    with Engine(spark=engine.session, sinks=[wall]) as watching:
        enter_market(watching, files, READER)
        watching.create_queries(draw_rules(number))
        files.let_in(READER, files.written)
        began = time.perf_counter()
        watching.process_available()
        seconds = time.perf_counter() - began
    latest = wall.latest[0].slice(max(0, wall.latest[0].num_rows - SHOWN)) if wall.latest else pa.table({})
    return Alerts(number, wall.rows, wall.alerts, seconds, latest)


def latest_alerts(found: Alerts) -> list[tuple[str, str, int, str]]:
    """List the latest alerts, the newest first: time, trade, how many rules take it, and one of them."""
    return [
        (
            f"{row['event_time']:%H:%M:%S}",
            f"{row['volume']:,} {row['symbol']} at {row['price']:,.2f} on {row['exchange']}",
            len(row["queries"]),
            row["queries"][-1],
        )
        for row in reversed(found.latest.to_pylist())
    ]
