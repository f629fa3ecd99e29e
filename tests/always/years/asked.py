"""What the queries of a year may ask: also of columns that come and go, and of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.always.questions import AGGREGATES, WHERES, Question, Row
from tests.always.years.rows import DAY, MORE, PUNCTUAL

WORDS: Final = {"max(k)": "k", "min(name)": "name"}  # aggregates of another type: folders of answers part ways


@dataclass(frozen=True, slots=True)
class Asked(Question):
    """A question of a year."""

    joined: bool = False

    def _joined(self) -> str:
        return " JOIN t USING (k)" if self.joined else ""

    def takes(self, row: Row) -> bool:
        return (not self.joined or row["joined"]) and Question.takes(self, row)

    def aggregate(self, text: str) -> Callable[[Sequence[Row]], Any]:
        if text in AGGREGATES:
            return AGGREGATES[text]
        if text in WORDS:
            return lambda rows: _best(text[:3], [r[WORDS[text]] for r in rows if r[WORDS[text]] is not None])
        column = text.removeprefix("sum(").removesuffix(")")
        return lambda rows: sum(r[column] for r in rows) if rows else None

    def reads(self, column: str) -> bool:
        return f"sum({column})" in self.aggregates

    @property
    def words(self) -> str:
        """Write the question as the file of a query; those of long slides leave their keys to GROUP BY ALL."""
        keys = f"GROUP BY {', '.join(self.keys)}"
        return self.sql("s").replace(keys, "GROUP BY ALL" if self.slide_us > 5 * DAY else keys)


def _best(which: str, values: Sequence[str]) -> str | None:
    return (max if which == "max" else min)(values, default=None)


def drawn(draw: Random, columns: Sequence[str], table: Sequence[str]) -> Asked:
    """Draw a question over the columns that stream and table have now."""
    joined, past = draw.random() < 0.3, draw.random() < 0.15
    keys: tuple[str, ...] = draw.choice([(), (), ("k",), ("k", "j")])
    more = [f"sum({name})" for name in MORE if name in columns]
    aggregates = draw.sample(sorted(AGGREGATES), 1) + draw.sample([*sorted(AGGREGATES), *more, "max(k)"], 1)
    if more and draw.random() < 0.5:
        aggregates[0] = draw.choice(more)
    if joined:
        keys = draw.choice([(), *((name,) for name in table)])
        aggregates = [*(a for a in aggregates if a != "max(k)"), *(["min(name)"] if draw.random() < 0.5 else [])]
    where = draw.choice([None, None, *sorted(w for w in WHERES if not (joined and "k " in w))])
    asked = Asked(
        draw.choice([3, 7, 10, 14, 30, 45]) * DAY,
        draw.choice([3, 5, 7, 14]) * DAY,
        draw.choice([0, 0, DAY, DAY // 2]),
        keys,
        tuple(dict.fromkeys(aggregates)),
        where,
        draw.choice([None, None, None, "count(*) > 1"]),
        draw.choice([None, None, None, 20 * DAY]),
        joined=joined,
    )
    if past and not joined and asked.revise_for_us is None:  # no row of it is late, whatever the lateness was
        return Asked(
            asked.range_us, asked.slide_us, asked.offset_us, (), asked.aggregates, f"k = '{PUNCTUAL}'",
            options=("from = 'beginning'",),
        )  # fmt: skip
    return asked


def without_past(asked: Asked) -> Asked:
    """Ask the same from now on."""
    return Asked(
        asked.range_us, asked.slide_us, asked.offset_us, asked.keys, asked.aggregates, asked.where, asked.having,
        asked.revise_for_us, joined=asked.joined,
    )  # fmt: skip
