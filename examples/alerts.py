import tempfile

import penstock as ps

with tempfile.TemporaryDirectory() as folder, ps.Engine(sinks=[alerts := ps.MemorySink()]) as engine:
    ps.write_trades(engine.session, ps.Market(rows=40_000, symbols=4, rate=20.0), folder, files=4)
    engine.execute(f"""
        CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{folder}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
        CREATE QUERY huge AS SELECT symbol, volume FROM trades WHERE volume > 58000;
        CREATE QUERY dear AS SELECT symbol, price FROM trades WHERE price > 270;
        CREATE STREAM blocks AS SELECT ts, symbol, price * volume AS value FROM trades WHERE volume > 50000;
        CREATE QUERY flow AS SELECT symbol, count(*) AS n FROM blocks [RANGE 20 MIN SLIDE 20 MIN] GROUP BY symbol
    """)
    engine.process_available(flush=True)
    for name in ("huge", "dear"):
        rows = engine.results(name, limit=3)
        for time, _, _, late, *values in zip(*rows.to_pydict().values(), strict=True):
            print(f"{name}  {time:%H:%M:%S}{' late' if late else ''} ", *values)
    for start, end, symbol, n in zip(*engine.results("flow").slice(0, 4).to_pydict().values(), strict=True):
        print(f"flow  {start:%H:%M}-{end:%H:%M} ", symbol, n)
    print("rows in the sink:", sum(table.num_rows for table in alerts.answers("huge")))
