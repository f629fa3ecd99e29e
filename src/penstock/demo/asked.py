"""Draws the demo's queries, each as Penstock and as Spark alone write it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.spark.market import EXCHANGES

RANGES_S: Final = (60, 120, 300, 420, 600, 720, 900, 1200, 1800)
SLIDES_S: Final = (60, 90, 120, 150, 180, 240, 300)
BLOCK_SIZES: Final = (1_000, 5_000, 10_000, 25_000, 50_000)


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of query; ``{volume}``, ``{exchange}`` and ``{number}`` vary, and so does the window after the first."""

    name: str
    asks: str
    aggregates: str
    window_s: tuple[int, int]  # range and slide of the first
    keys: str = ""
    where: str = ""
    having: str = ""
    listing: bool = False


TEMPLATES: Final = (
    Template("turnover", "how much is traded", "sum(price * volume) AS turnover, count(*) AS trades", (300, 60)),
    Template(
        "sector",
        "which sectors trade how much",
        "sum(price * volume) AS turnover, avg(price) AS mean_price",
        (600, 120),
        keys="sector",
        listing=True,
    ),
    Template(
        "busiest",
        "which symbols trade most often",
        "count(*) AS trades, min(price) AS low, max(price) AS high",
        (300, 60),
        keys="symbol",
        having="trades > {number}",
    ),
    Template(
        "blocks",
        "large trades by side",
        "count(*) AS blocks, max(volume) AS largest",
        (420, 120),
        keys="side",
        where="volume > {volume}",
    ),
    Template(
        "small_caps",
        "large trades outside the big index",
        "count(*) AS trades, sum(volume) AS shares",
        (720, 300),
        keys="sector",
        where="listing.r2000 AND volume > {volume}",
        having="trades > 2",
        listing=True,
    ),
    Template(
        "vwap",
        "the mean price by volume on one exchange",
        "sum(price * volume) / sum(volume) AS vwap",
        (180, 90),
        where="exchange = '{exchange}'",
    ),
    Template(
        "pressure",
        "do buyers or sellers push",
        "sum(CASE WHEN side = 'B' THEN volume ELSE -volume END) AS bought_net, stddev(volume) AS spread",
        (120, 60),
    ),
)


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """One query of the demo; ``alone`` is the same in plain Spark, with the window's end in front."""

    name: str
    template: Template
    window: Window
    text: str
    alone: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the group columns."""
        return tuple(filter(None, (self.template.keys,)))


def draw_queries(number: int, seed: int) -> list[DemoQuery]:
    """Fill the templates in turn; the first of each kind has a window that is easy to follow."""
    draw = random.Random(seed)
    return [_fill(TEMPLATES[i % len(TEMPLATES)], i, draw) for i in range(number)]


def script_of(asked: list[DemoQuery]) -> str:
    """Write queries as a script."""
    return ";\n".join(f"CREATE QUERY {q.name} AS {q.text}" for q in asked)


def _fill(template: Template, number: int, draw: random.Random) -> DemoQuery:
    """Write one query both ways; Spark's windows start where ours do when startTime is −range mod slide."""
    range_s, slide_s = _window_s(template, number, draw)
    values = {"volume": draw.choice(BLOCK_SIZES), "exchange": draw.choice(EXCHANGES), "number": draw.randint(20, 200)}
    where = f"WHERE {template.where.format(**values)}" if template.where else ""
    having = f"HAVING {template.having.format(**values)}" if template.having else ""
    keys, grouped = (f"{template.keys}, ", f"GROUP BY {template.keys}") if template.keys else ("", "")
    join = "JOIN listing USING (symbol)" if template.listing else ""
    lengths = ", ".join(f"'{s} seconds'" for s in (range_s, slide_s, -range_s % slide_s))
    starts = f"GROUP BY window(ts, {lengths})" + (f", {template.keys}" if keys else "")
    window, wanted = Window(range_s * SECOND, slide_s * SECOND), f"{keys}{template.aggregates} FROM trades"
    text = (f"SELECT {wanted}", str(window), join, where, grouped, having)
    alone = (f"SELECT window.end AS window_end, {wanted}", join, where, starts, having)
    name = f"{template.name}_{number + 1}"
    return DemoQuery(name, template, window, " ".join(filter(None, text)), " ".join(filter(None, alone)))


def _window_s(template: Template, number: int, draw: random.Random) -> tuple[int, int]:
    """Draw range and slide; the first of a kind has its own."""
    range_s = draw.choice(RANGES_S)
    slide_s = draw.choice([s for s in SLIDES_S if s <= range_s])
    return template.window_s if number < len(TEMPLATES) else (range_s, slide_s)
