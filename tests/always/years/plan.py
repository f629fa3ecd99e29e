"""A project as its folder says it at one time of the year, and the changes that people make to it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.always.questions import Row
from tests.always.years.asked import Asked, drawn, without_past
from tests.always.years.rows import MORE, write_table

TABLE_COLUMNS: Final = ("name", "zone", "rank")
NAMES: Final = tuple(f"q{number}" for number in range(9))
MOST: Final = 6  # queries at a time
SINKS: Final = ("parquet", "jsonl", "parquet")


@dataclass
class Plan:
    """What penstock.yml and the files of queries say."""

    draw: Random
    columns: list[str] = field(default_factory=list)  # beside those that are always there
    lateness: int = 2  # days
    rows_in: str = "rows"  # folder of the stream's files
    files_at_once: int = 1
    retain: int = 0  # days
    table_in: str = "t.csv"
    table_columns: list[str] = field(default_factory=lambda: ["name"])
    table: dict[str, dict[str, Any]] = field(default_factory=dict)
    sinks: list[tuple[str, str]] = field(default_factory=lambda: [("answers-0", "query")])  # folder and layout
    queries: dict[str, Asked] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)  # the changes so far
    changes_values: bool = True  # of the table; not where rows are kept, which are joined with the table of now

    def begin(self) -> None:
        """Draw how the year begins."""
        self.changes_values = self.draw.random() < 0.6
        self.retain = 0 if self.changes_values else 30
        self.sinks[0] = ("answers-0", self.draw.choice(["query", "query/day"]))
        self.table = {k: {c: f"{c[0]}{self.draw.randint(0, 2)}" for c in TABLE_COLUMNS} for k in ("a", "b", "z")}
        for name in NAMES[:4]:
            self.queries[name] = without_past(drawn(self.draw, self.columns, self.table_columns))

    def write(self, folder: Path, number: int) -> None:
        """Write the project; the stream's folders are there already."""
        (folder / "queries").mkdir(exist_ok=True)
        types = {"ts": "TIMESTAMP", "k": "STRING", "j": "INT", "v": "BIGINT"} | dict.fromkeys(self.columns, "BIGINT")
        stream: dict[str, Any] = {
            "format": "parquet",
            "path": self.rows_in,
            "options": {"maxFilesPerTrigger": self.files_at_once},
            "columns": types,
            "time": "ts",
            "lateness": f"{self.lateness} days",
        }
        if self.retain:
            stream["retain_rows"] = f"{self.retain} days"
        table = {"format": "csv", "path": self.table_in, "options": {"header": True}}
        settings = {
            "name": "year",
            "streams": {"s": stream},
            "tables": {"t": table | {"columns": dict.fromkeys(["k", *self.table_columns], "STRING")}},
            "sinks": [self._sink(place, *sink) for place, sink in enumerate(self.sinks)],
            "state": "state",
        }
        write_table(folder / self.table_in, number, self.table, self.table_columns)
        (folder / "penstock.yml").write_text(json.dumps(settings, indent=1))
        for path in (folder / "queries").glob("*.sql"):
            if path.stem not in self.queries:
                path.unlink()
        for name, asked in self.queries.items():
            (folder / "queries" / f"{name}.sql").write_text(asked.words + "\n")

    def _sink(self, place: int, folder: str, layout: str) -> dict[str, Any]:
        kind = SINKS[place]
        return {kind: {"folder": folder} | ({"layout": layout} if kind == "parquet" else {})}

    def joined(self, row: Row) -> Row:
        """Join a row with the table as it is now; where rows are kept, as it will ever be."""
        found = self.table.get(row["k"], {})
        shown = {c: found.get(c) for c in TABLE_COLUMNS if c in self.table_columns or not self.changes_values}
        return {**row, "joined": row["k"] in self.table, **shown}

    # -- changes -------------------------------------------------------------------------------------------------

    def change(self, number: int, *, sinks: bool) -> None:
        """Make one change, perhaps; an engine that is open keeps its ``sinks``."""
        changes = (
            self._gain, self._gain, self._lose, self._wait, self._move, self._options, self._widen_table,
            self._other_values, self._add, self._add, self._edit, self._edit, self._edit, self._drop, self._bring_back,
            self._rename, *((self._sink_more, self._sink_less, self._sink_elsewhere) if sinks else ()),
        )  # fmt: skip
        made = self.draw.choice(changes)
        if (told := made(number)) is not None:
            self.said.append(f"{number}: {made.__name__[1:]} {told}")

    def _gain(self, number: int) -> object:
        missing = [name for name in MORE if name not in self.columns]
        self.columns += missing[:1]
        return missing[:1] or None

    def _lose(self, number: int) -> object:
        """Take a column out that no query of the folder reads; a definition of before may still be in the way."""
        idle = [name for name in self.columns if not any(one.reads(name) for one in self.queries.values())]
        if not idle:
            return None
        self.columns.remove(idle[0])
        return idle[0]

    def _wait(self, number: int) -> object:
        self.lateness = self.draw.choice([0, 1, 2, 5, 10])
        return self.lateness

    def _move(self, number: int) -> object:
        self.rows_in = self.draw.choice(["rows", "rows-elsewhere", f"rows-{number}"])
        return self.rows_in

    def _options(self, number: int) -> object:
        self.files_at_once = 3 - self.files_at_once
        return self.files_at_once

    def _widen_table(self, number: int) -> object:
        missing = [name for name in TABLE_COLUMNS if name not in self.table_columns]
        self.table_columns += missing[:1]
        self.table_in = self.draw.choice([self.table_in, f"t-{number}.csv"])
        return missing[:1] or None

    def _other_values(self, number: int) -> object:
        if not self.changes_values:
            return None
        key = self.draw.choice("abcd")
        self.table[key] = {c: f"{c[0]}{self.draw.randint(0, 2)}" for c in TABLE_COLUMNS}
        return key

    def _free(self) -> list[str]:
        return [name for name in NAMES if name not in self.queries]

    def _add(self, number: int) -> object:
        fresh = [name for name in self._free() if not any(f" {name} " in f"{told} " for told in self.said)]
        if len(self.queries) >= MOST or not fresh:
            return None
        self.queries[fresh[-1]] = asked = drawn(self.draw, self.columns, self.table_columns)
        return f"{fresh[-1]} {asked.words}"

    def _edit(self, number: int) -> object:
        names = [name for name, asked in self.queries.items() if not asked.options]
        if not names:
            return None
        name = self.draw.choice(names)
        self.queries[name] = without_past(drawn(self.draw, self.columns, self.table_columns))
        return f"{name} {self.queries[name].words}"

    def _drop(self, number: int) -> object:
        if len(self.queries) < 2:
            return None
        name = self.draw.choice(sorted(self.queries))
        del self.queries[name]
        return f"{name} "

    def _bring_back(self, number: int) -> object:
        gone = [name for name in self._free() if any(f"drop {name} " in told for told in self.said)]
        if not gone or len(self.queries) >= MOST:
            return None
        name = self.draw.choice(gone)
        self.queries[name] = without_past(drawn(self.draw, self.columns, self.table_columns))
        return f"{name} {self.queries[name].words}"

    def _rename(self, number: int) -> object:
        fresh = [name for name in self._free() if not any(f" {name} " in f"{told} " for told in self.said)]
        if not fresh:
            return None
        name = self.draw.choice(sorted(self.queries))
        self.queries[fresh[0]] = self.queries.pop(name)
        return f"{name} to {fresh[0]} "

    def _sink_more(self, number: int) -> object:
        place = len(self.sinks)
        if place >= len(SINKS):
            return None
        self.sinks.append((f"answers-{place}-{number}", self.draw.choice(["query", "query/day", "columns"])))
        return self.sinks[-1]

    def _sink_less(self, number: int) -> object:
        return self.sinks.pop() if len(self.sinks) > 1 and self.draw.random() < 0.5 else None

    def _sink_elsewhere(self, number: int) -> object:
        place = self.draw.randrange(len(self.sinks))
        self.sinks[place] = (f"answers-{place}-{number}", self.sinks[place][1])
        return self.sinks[place]
