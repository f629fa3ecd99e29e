import tempfile

import penstock as ps

FLOW = "SELECT symbol, count(*) AS n, avg(price) AS price FROM trades [RANGE 10 MIN SLIDE 10 MIN] GROUP BY symbol"

with tempfile.TemporaryDirectory() as folder, ps.Engine() as engine:
    ps.write_trades(engine.session, ps.Market(rows=40_000, symbols=2, rate=20.0), folder, files=4)
    engine.execute(f"""
        CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{folder}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
        CREATE QUERY exact AS {FLOW};
        CREATE QUERY flow AS {FLOW} WITH (shed = 'sample')
    """)
    engine.set_sampling("trades", "1/4")  # too much comes
    engine.process_available(flush=True)
    exact, flow = (engine.results(name, "rows")[:4] for name in ("exact", "flow"))
    for true, told in zip(exact, flow, strict=True):
        print(f"{told['window_end']:%H:%M} {told['symbol']}  ", end="")
        print(f"n {told['n']} ± {told['n_bound']:.0f}, exactly {true['n']}; ", end="")
        print(f"price {told['price']:.2f} ± {told['price_bound']:.2f}, exactly {true['price']:.2f}; ", end="")
        print(f"of {told['sampled']:.0%} of the rows")
    print("shed:", {query["query"]: query["shed"] for query in engine.status()["queries"]}, "of 40000 rows")
