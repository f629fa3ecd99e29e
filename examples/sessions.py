"""Visits of users to a site: rows of one user that follow each other at most ten, or at most thirty, seconds apart."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.testing import TestBed

START = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
CLICKS = [  # seconds after START, user, page
    (0, "ann", "home"),
    (4, "bob", "home"),
    (9, "ann", "cart"),
    (19, "ann", "pay"),  # ten seconds later: the same visit
    (40, "bob", "help"),
]

with TestBed(epoch=START) as bed:
    bed.stream("clicks", "ts TIMESTAMP, user STRING, page STRING", lateness="15 s")
    bed.query("visits", "SELECT user, count(*) AS pages FROM clicks [SESSION 10 s] GROUP BY user")
    bed.query(
        "long_visits",
        "SELECT user, session_window.start AS begun, count(DISTINCT page) AS pages FROM clicks "
        "GROUP BY session_window(ts, '30 seconds'), user HAVING pages > 1",
    )

    bed.feed("clicks", CLICKS)  # the watermark is 15 s behind the last click: at 25
    print("visits that have ended:", bed.timeline("visits"))

    bed.feed("clicks", [(12, "bob", "late"), (20, "bob", "home")])  # late: both make a visit that has not ended
    bed.feed("clicks", [(70, "ann", "home")])
    print("and more of them:", bed.timeline("visits"))

    bed.flush()
    print("all visits:", bed.timeline("visits"))
    for end, user, begun, pages in bed.timeline("long_visits"):
        print(f"  {user} from {begun:%H:%M:%S}, {pages} pages, over at {end} s")
