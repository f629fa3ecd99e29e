-- Small companies that trade more than ten times in a quarter of an hour.
SELECT symbol, count(*) AS trades, min(price) AS low, max(price) AS high
FROM trades [RANGE 15 MIN SLIDE 5 MIN] JOIN listing USING (symbol)
WHERE listing.small
GROUP BY symbol HAVING trades > 10
