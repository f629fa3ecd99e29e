-- One hour of a generated market; run it from the folder above:
--   penstock run examples/market.sql --once --flush --show 2
-- The same seed gives the same trades. With --once the generator makes one batch; without it, it goes on until stopped.

CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, side STRING, exchange STRING)
USING trades OPTIONS (seed = 7, symbols = 20, rate = 25, late_fraction = 0.01, rows_per_batch = 90000)
WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;

CREATE TABLE listing (symbol STRING, sector STRING, r2000 BOOLEAN)
USING csv OPTIONS (path = 'examples/listing.csv', header = true);

-- Two windows over all trades: they share the pass over the rows, the slices and the partials.
CREATE QUERY pace AS
SELECT count(*) AS trades, sum(volume) AS shares FROM trades [RANGE 15 MIN SLIDE 10 MIN];

CREATE QUERY pace_slow AS
SELECT count(*) AS trades, sum(volume) AS shares FROM trades [RANGE 40 MIN SLIDE 20 MIN];

-- A joined table neither multiplies nor loses rows of the queries that do not join it.
CREATE QUERY sectors AS
SELECT sector, sum(CAST(price AS DECIMAL(10, 2)) * volume) AS turnover
FROM trades [RANGE 12 MIN SLIDE 5 MIN] JOIN listing USING (symbol)
GROUP BY sector;

CREATE QUERY small_caps AS
SELECT sector, max(volume) AS largest
FROM trades [RANGE 30 MIN SLIDE 30 MIN] JOIN listing USING (symbol)
WHERE listing.r2000 AND volume > 50000
GROUP BY sector HAVING count(*) > 2;

CREATE QUERY blocks AS
SELECT side, count(*) AS blocks, avg(volume) AS mean_volume
FROM trades [RANGE 20 MIN SLIDE 15 MIN OFFSET 5 MIN]
WHERE volume > 50000
GROUP BY side;
