-- The mean price of each symbol, weighted by volume.
SELECT symbol, sum(price * volume) / sum(volume) AS vwap
FROM trades [RANGE 10 MIN SLIDE 5 MIN]
GROUP BY symbol
