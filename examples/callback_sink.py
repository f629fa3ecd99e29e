"""A sink of your own in a function: answers go to a database, each once, also when the process dies in between."""

import sqlite3
import tempfile
from pathlib import Path

import penstock as ps

SCRIPT = """
    CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{path}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
    CREATE QUERY flow AS
        SELECT symbol, sum(volume) AS shares FROM trades [RANGE 10 MIN SLIDE 10 MIN] GROUP BY symbol;
"""


def database(path: Path) -> sqlite3.Connection:
    """Open the database, with a table for answers and one for the batches that it has."""
    opened = sqlite3.connect(path)
    opened.execute("CREATE TABLE IF NOT EXISTS flow (until TEXT, symbol TEXT, shares INTEGER)")
    opened.execute("CREATE TABLE IF NOT EXISTS batches (key TEXT PRIMARY KEY)")
    return opened


def sink_into(path: Path) -> ps.CallbackSink:
    """Make a sink that writes into a database."""

    @ps.sink
    def flow_table(batch: ps.SinkBatch) -> None:
        with database(path) as transaction:  # the answers and the batch's key together, or neither
            if transaction.execute("SELECT 1 FROM batches WHERE key = ?", [batch.key]).fetchone():
                return  # it came before, and the process died before Penstock knew
            transaction.execute("INSERT INTO batches VALUES (?)", [batch.key])
            for name, answers in batch.queries():
                if name == "flow":
                    rows = [(str(row["window_end"]), row["symbol"], row["shares"]) for row in answers.to_pylist()]
                    transaction.executemany("INSERT INTO flow VALUES (?, ?, ?)", rows)

    return flow_table


def main(folder: Path) -> None:
    with ps.Engine(folder / "state", sinks=[sink_into(folder / "flow.db")]) as engine:
        ps.write_trades(engine.session, ps.Market(rows=20_000, symbols=2, rate=20.0), folder / "trades", files=2)
        engine.execute(SCRIPT.format(path=folder / "trades"))
        engine.process_available()
        answers = engine.results("flow").num_rows

    with database(folder / "flow.db") as opened:
        (rows,) = opened.execute("SELECT count(*) FROM flow").fetchone()
        print("every answer once:", rows == answers)
        for row in opened.execute(
            "SELECT substr(until, 12, 5), symbol, shares FROM flow ORDER BY until, symbol LIMIT 2"
        ):
            print(*row)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
