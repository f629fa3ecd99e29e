-- How many trades and shares in the last five minutes, every minute.
SELECT count(*) AS trades, sum(volume) AS shares
FROM trades [RANGE 5 MIN SLIDE 1 MIN]
