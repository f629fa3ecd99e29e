"""A state folder: process half of the files, close, open again, go on; the answers are those of one run."""

import tempfile
from pathlib import Path

import penstock as ps

COLUMNS = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT"


def script(arrived: Path) -> str:
    return f"""
        CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{arrived}')
            WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
        CREATE QUERY flow AS
            SELECT symbol, sum(volume) AS shares FROM trades [RANGE 12 MIN SLIDE 5 MIN] GROUP BY symbol;
    """


def tell(when: str, engine: ps.Engine) -> None:
    answers, counts = engine.results("flow"), engine.stream("trades").pipeline.progress.clock.counts
    print(f"{when}: {counts.ingested} rows, {answers.num_rows} answers up to {answers['window_end'][-1].as_py():%H:%M}")


def main(folder: Path) -> None:
    arrived, state = folder / "arrived", folder / "state"
    arrived.mkdir()
    with ps.Engine(state) as engine:
        engine.execute(script(arrived))
        files = ps.write_trades(engine.session, ps.Market(rows=40_000, symbols=4, rate=20.0), folder / "made", files=4)
        for file in files[:2]:
            file.rename(arrived / file.name)
        engine.process_available()
        tell("before", engine)

    with ps.Engine(state) as engine:  # streams and queries are in the state folder: nothing is declared again
        tell("opened again", engine)
        for file in files[2:]:
            file.rename(arrived / file.name)
        engine.process_available(flush=True)
        tell("at the end", engine)
        resumed = engine.results("flow")

    with ps.Engine() as engine:  # the same files in one go, state in memory
        engine.execute(script(arrived))
        engine.process_available(flush=True)
        print("same answers as one run:", engine.results("flow").equals(resumed))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
