"""A stream of two thousand columns, queries over five hundred of them, and one with five hundred outputs."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.engine import Engine
from tests.always.extremes.fields import session
from tests.always.extremes.trial import Trial

START_S = 1_767_623_400
WIDTH = 2_000
ROWS = 200
FILES = 3
QUERIES = 100


def run(trial: Trial, width: int = WIDTH) -> None:
    """Read the same rows from Parquet and from CSV."""
    spark = session("2g")
    tables = [_rows(number, width) for number in range(FILES)]
    held = pa.concat_tables(tables)
    for format_ in ("parquet", "csv"):
        folder = trial.folder / format_
        folder.mkdir()
        for number, table in enumerate(tables):
            _write(folder, number, table)
        _try(trial, format_, folder, held, width, spark)


def _rows(number: int, width: int) -> pa.Table:
    """Make rows of one file: ts, then numbers, a tenth of them NULL."""
    draw = random.Random(number)
    times = [(START_S + number * 10) * 1_000_000 + 50_000 * place for place in range(ROWS)]
    columns = {"ts": pa.array(times, pa.timestamp("us", tz="UTC"))}
    for place in range(width - 1):
        values = [None if draw.random() < 0.1 else draw.randrange(1_000) for _ in range(ROWS)]
        columns[f"c{place}"] = pa.array(values, pa.int64())
    return pa.table(columns)


def _write(folder: Path, number: int, table: pa.Table) -> None:
    path = folder / f"{number}.{folder.name}"
    if folder.name == "parquet":
        pq.write_table(table, path)
    else:
        micros = table.set_column(0, "ts", pa.array([t.isoformat() for t in table["ts"].to_pylist()]))
        pacsv.write_csv(micros, path, pacsv.WriteOptions(include_header=False))
    os.utime(path, (START_S + number, START_S + number))


def _try(trial: Trial, format_: str, folder: Path, held: pa.Table, width: int, spark: object) -> None:
    declared = ", ".join(["ts TIMESTAMP", *(f"c{n} BIGINT" for n in range(width - 1))])
    names = [f"c{(n * 4 + 1) % (width - 1)}" for n in range(min(500, width - 1))]
    state = trial.folder / f"state_{format_}"
    with Engine(state, spark=spark) as engine:  # type: ignore[arg-type]
        source = f"USING {format_} OPTIONS (path = '{folder}', maxFilesPerTrigger = '1')"
        with trial.timed(f"{format_}_declare"):
            engine.execute(f"CREATE STREAM s ({declared}) {source} WATERMARK FOR ts")
        script = []
        for n in range(QUERIES):
            added, most, tested = _asked(n, names)
            asked = f"SELECT sum({added}) AS t, max({most}) AS m FROM s [RANGE 10 s SLIDE 5 s]"
            script.append(f"CREATE QUERY q{n} AS {asked} WHERE {tested} > {10 * (n % 90)}")
        wide = ", ".join(f"sum({name}) AS {name}" for name in names)
        script.append(f"CREATE QUERY wide AS SELECT {wide} FROM s [RANGE 10 s SLIDE 10 s]")
        with trial.timed(f"{format_}_create"):
            engine.execute(";\n".join(script))
        more = ", ".join(f"sum({name}) AS {name}" for name in [*names, "c0"])
        trial.refused(
            f"{format_}: more outputs than the limit are refused",
            lambda: engine.create_query("wider", f"SELECT {more} FROM s [RANGE 10 s SLIDE 10 s]"),
            "500",
        )
        trial.refused(
            f"{format_}: more columns than the limit are refused",
            lambda: engine.execute(f"CREATE STREAM t ({declared}, more INT) {source} WATERMARK FOR ts"),
            "2,000",
        )
        with trial.timed(f"{format_}_process"):
            engine.process_available(flush=True)
        trial.memory(format_)
        trial.claim(f"{format_}: the answers of all queries are right", not (odd := _wrong(engine, held, names)), odd)
    with trial.timed(f"{format_}_reopen"), Engine(state, spark=spark) as engine:  # type: ignore[arg-type]
        trial.claim(f"{format_}: the state opens again", not (odd := _wrong(engine, held, names)), odd)


def _asked(number: int, names: list[str]) -> list[str]:
    """Name the columns that a query adds up, takes the greatest of, and tests."""
    return [names[(5 * number + place) % len(names)] for place in range(3)]


def _wrong(engine: Engine, held: pa.Table, names: list[str]) -> str:
    """Say which query is wrong, by plain Python."""
    columns = {name: held[name].to_pylist() for name in held.column_names}
    times = [int(ts.timestamp() * 1_000_000) for ts in columns["ts"]]
    for n in range(QUERIES):
        added, most, tested = _asked(n, names)
        for row in engine.results(f"q{n}", "rows"):
            low, high = (int(row[name].timestamp() * 1_000_000) for name in ("window_start", "window_end"))
            taken = [i for i, ts in enumerate(times) if low <= ts < high and (columns[tested][i] or -1) > 10 * (n % 90)]
            total = [v for i in taken if (v := columns[added][i]) is not None]
            best = [v for i in taken if (v := columns[most][i]) is not None]
            wanted = (sum(total) if total else None, max(best, default=None))
            if (row["t"], row["m"]) != wanted:
                return f"q{n}: {row} is not {wanted}"
    rows = engine.results("wide", "rows")
    for row in rows:
        low, high = (int(row[name].timestamp() * 1_000_000) for name in ("window_start", "window_end"))
        for name in names:
            total = [v for ts, v in zip(times, columns[name], strict=True) if low <= ts < high and v is not None]
            if row[name] != (sum(total) if total else None):
                return f"wide: {name} is {row[name]}, not {sum(total)}"
    return "" if len(rows) >= FILES and engine.results("q0").num_rows else "there are no answers"
