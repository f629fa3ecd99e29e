"""A state folder that an earlier version wrote goes on: what it answers is what one engine answers from the first row.

``tests/store/format2.zip`` was written before modules and names were put in order, by ``python -m
tests.stream.test_older_folder FOLDER`` of that version; whoever changes what is written keeps it readable.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
FORMAT_2 = Path(__file__).parents[1] / "store" / "format2.zip"
QUERIES = {
    "plain": "SELECT count(*) AS n, sum(v) AS x, stddev_pop(v) AS d FROM s [RANGE 40 s SLIDE 10 s OFFSET 3 s] "
    "WHERE v BETWEEN 1 AND 7 AND NOT (k = 'a' OR v = 3)",
    "keyed": "SELECT k, median(v) AS m, count(DISTINCT v) AS c FROM s [RANGE 30 s SLIDE 10 s] GROUP BY k",
    "revised": "SELECT k, sum(v) AS x FROM s [RANGE 30 s SLIDE 10 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 h')",
    "changes": "SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (emit = 'change')",
    "rolled": "SELECT k, count(*) AS n FROM s [RANGE 30 s SLIDE 10 s] GROUP BY ROLLUP (k)",
    "rows": "SELECT sum(v) AS x FROM s [ROWS 15 SLIDE 5]",
    "parts": "SELECT k, sum(v) AS x FROM s [PARTITION BY k ROWS 6 SLIDE 4] GROUP BY k",
    "many": "SELECT j, first(v) AS f, mode(k) AS m FROM s [RANGE 60 s SLIDE 20 s] GROUP BY j",
    "sketched": "SELECT approx_count_distinct(j) AS n FROM s [RANGE 60 s SLIDE 20 s]",
}
HALF = 4  # batches that the folder holds


def batches() -> list[list[dict[str, Any]]]:
    draw = random.Random(3)
    return [
        [
            {
                "ts": number * 20 + draw.random() * 25 - 5,
                "k": draw.choice("abc"),
                "j": draw.randrange(20),
                "v": draw.randrange(9),
            }
            for _ in range(30)
        ]
        for number in range(HALF + 2)
    ]


def begun(bed: TestBed) -> None:
    """Declare everything, and feed the first half."""
    bed.stream("s", "ts TIMESTAMP, k STRING, j INT, v INT", lateness="2 s")
    for name, text in QUERIES.items():
        bed.query(name, text)
    for batch in batches()[:HALF]:
        bed.feed("s", batch)


def finished(bed: TestBed) -> dict[str, Any]:
    """Feed two batches more, and return all that was answered."""
    for batch in batches()[HALF:]:
        bed.feed("s", batch)
    bed.flush()
    assert {name: bed.paused(name) for name in QUERIES} == dict.fromkeys(QUERIES)
    found: dict[str, Any] = {n: bed.engine.results(n, "rows", revisions=n == "revised") for n in QUERIES}
    return found | {"counts": bed.counts("s")}


def to_last_digits(said: Any) -> Any:
    """Round doubles to 14 digits: versions merge variances in other orders."""
    if not isinstance(said, list):
        return said
    return [{k: float(f"{v:.14g}") if isinstance(v, float) else v for k, v in row.items()} for row in said]


def test_a_folder_of_an_earlier_version_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    shutil.unpack_archive(FORMAT_2, tmp_path / "older")
    with TestBed(spark, state=tmp_path / "older", max_driver_groups=10, aggregation="executors") as bed:
        assert bed.engine.stream("s").pipeline.groupings.spread  # those of "many" are the executors'
        found = finished(bed)
    with TestBed(spark, aggregation="executors") as bed:  # doubles are added up in the same order
        begun(bed)
        wanted = finished(bed)
    for name, said in wanted.items():
        assert to_last_digits(found[name]) == to_last_digits(said), name
    assert all(wanted[name] for name in QUERIES)


if __name__ == "__main__":
    with TestBed(state=sys.argv[1], max_driver_groups=10) as opened:
        begun(opened)
