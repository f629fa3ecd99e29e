"""A stream's Spark query lets go of what its batches were given to."""

import gc
import weakref
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.sources.streaming_query import SparkQuery


class Taker:
    """Takes batches, and notes how many."""

    def __init__(self) -> None:
        self.batches = 0

    def take(self, batch: DataFrame, number: int, source: str) -> None:
        self.batches += 1


def test_a_query_that_has_ended_keeps_nobody_that_took_its_batches(spark: SparkSession, tmp_path: Path) -> None:
    # Py4J keeps what Spark calls back for as long as Java does, which may be until the process ends.
    taker = Taker()
    (tmp_path / "in").mkdir()
    spark.range(3).write.mode("overwrite").parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "in"))
    query = SparkQuery("numbers", frame, tmp_path / "checkpoint", taker.take)
    assert query.run_available(["id"])
    query.stop()
    assert taker.batches == 1
    gone = weakref.ref(taker)
    del taker, query
    gc.collect()
    assert gone() is None
