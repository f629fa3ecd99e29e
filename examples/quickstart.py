import tempfile

import penstock as ps

with tempfile.TemporaryDirectory() as folder, ps.Engine() as engine:
    ps.write_trades(engine.session, ps.Market(rows=40_000, symbols=4, rate=20.0), folder, files=4)
    engine.execute(f"""CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{folder}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS""")
    engine.create_query("pace", "SELECT count(*) FROM trades [RANGE 15 MIN SLIDE 10 MIN]")
    engine.create_query("flow", "SELECT symbol, sum(volume) FROM trades [RANGE 12 MIN SLIDE 5 MIN] GROUP BY symbol")
    engine.create_query("peak", "SELECT max(price) FROM trades [RANGE 9 MIN SLIDE 6 MIN] WHERE volume > 50000")
    engine.process_available(flush=True)
    for name in ("pace", "flow", "peak"):
        for start, end, *answer in zip(*engine.results(name).slice(0, 4).to_pydict().values(), strict=True):
            print(f"{name}  {start:%H:%M}-{end:%H:%M} ", *answer)
