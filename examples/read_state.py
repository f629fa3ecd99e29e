"""A state folder without Penstock: its partials and answers are Arrow, and DuckDB reads them with SQL."""

import json
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

import penstock as ps

SCRIPT = """
    CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{path}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
    CREATE QUERY flow AS
        SELECT symbol, sum(volume) AS shares FROM trades [RANGE 10 MIN SLIDE 5 MIN] GROUP BY symbol;
"""


def answers(folder: Path) -> list[pa.Table]:
    """Read all answers: every file holds Arrow streams, and its index at the end says where."""
    tables = []
    for path in sorted(folder.glob("*.answers")):
        content = path.read_bytes()
        length = int.from_bytes(content[-16:-8], "little")
        _, _, index = content[-16 - length : -16].partition(b" ")  # behind its checksum
        for part in json.loads(index)["parts"]:
            tables.append(pa.ipc.open_stream(content[part["offset"] :][: part["length"]]).read_all())
    return tables


def tell(question: str, rows: ds.Dataset | pa.Table) -> None:
    name = "partials" if isinstance(rows, ds.Dataset) else "flow"
    found = duckdb.connect().register(name, rows).sql(question)
    print(" | ".join(found.columns))
    for row in found.fetchall():
        print(" | ".join(map(str, row)))


def main(folder: Path) -> None:
    with ps.Engine(folder / "state") as engine:
        ps.write_trades(engine.session, ps.Market(rows=20_000, symbols=2, rate=20.0), folder / "trades", files=2)
        engine.execute(SCRIPT.format(path=folder / "trades"))
        engine.process_available()

    files = sorted((folder / "state" / "commits" / "trades").glob("*.arrow"))
    partials = ds.dataset([file for file in files if file.stat().st_size], format="ipc")  # empty: of a commit to come
    about = json.loads(partials.schema.metadata[b"penstock"])
    (grouping,) = about["groupings"]
    (shares,) = about["components"]
    print("label:", grouping["label"], "| keys:", grouping["keys"], "| components:", about["components"])

    volume = f"""
        SELECT strftime(make_timestamp(label), '%H:%M') AS slice, k0 AS symbol,
               sum(rows) AS trades, sum({shares}) AS shares
        FROM partials WHERE label IS NOT NULL GROUP BY ALL ORDER BY ALL
    """
    tell(volume, partials)

    flow = pa.concat_tables(answers(folder / "state" / "answers" / "trades"))
    tell("SELECT strftime(window_end, '%H:%M') AS until, symbol, shares FROM flow ORDER BY ALL LIMIT 4", flow)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
