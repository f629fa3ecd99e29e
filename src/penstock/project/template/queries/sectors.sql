-- Turnover by sector; the sector comes from the table "listing".
SELECT sector, sum(price * volume) AS turnover, count(*) AS trades
FROM trades [RANGE 10 MIN SLIDE 10 MIN] JOIN listing USING (symbol)
GROUP BY sector
