-- Large trades: how many, and how large, by side.
SELECT side, count(*) AS blocks, max(volume) AS largest
FROM trades [RANGE 12 MIN SLIDE 5 MIN]
WHERE volume >= 5000
GROUP BY side
