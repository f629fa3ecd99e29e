"""Removes rows whose key came before, and counts them.

A key is remembered until the watermark has passed the time of its row. Keys are kept by commit (`commit_folders.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from penstock.errors import WrongType
from penstock.spark.job.literals import longs, quoted
from penstock.spark.kept_rows.commit_folders import TIME, CommitFolders
from penstock.spark.kept_rows.dead_letters import is_valid, micros_of
from penstock.spark.sources.frames import written_type
from penstock.store.invalid import FLOOR

_FRESH: Final = "__fresh"  # a row of the batch, not a remembered key
_KEYED: Final = "__keyed"  # valid, and without a NULL in its key: may be a duplicate, and be remembered
_HASH: Final = "__hash"
_PLACE: Final = "__place"  # among the rows of its key, from 1


class Duplicates:
    """Tells first rows of a key from those that repeat it, within a batch and since the watermark."""

    def __init__(self, session: SparkSession, keys: Sequence[str], time: str, folder: Path) -> None:
        """Open the folder of remembered keys; after a crash call :meth:`forget_after` first."""
        self.session, self.keys, self.time = session, tuple(keys), time
        self.folders = CommitFolders(folder, "keys")
        self._cached: DataFrame | None = None

    def split(self, batch: DataFrame, number: int, watermark_us: int, ahead_us: int) -> tuple[DataFrame, int]:
        """Return a batch without its duplicates, and their number; remember its keys for the commit of the number.

        One Spark job: it computes and caches the rows, writes the keys and counts.
        """
        self.release()
        columns = self._columns(batch)
        self.folders.compact(self.session, columns, lambda rows: rows.where(f"{TIME} >= {watermark_us}L"))
        marked = self._marked(batch, columns, watermark_us, ahead_us).persist(StorageLevel.MEMORY_AND_DISK)
        self._cached = marked
        counted = Observation()
        dropped = F.count_if(F.expr(f"{_KEYED} AND {_PLACE} > 1")).alias("dropped")
        remembered = (
            marked.observe(counted, dropped)
            .where(f"{_KEYED} AND {_PLACE} = 1 AND {TIME} >= {_fixed(watermark_us, TIME)}")
            .select(*(F.col(quoted(k)).alias(k) for k in self.keys), TIME)
        )
        self.folders.write(remembered, number)
        kept = marked.where(f"NOT ({_KEYED} AND {_PLACE} > 1)")
        return kept.select(*(F.col(quoted(c)) for c in batch.columns)), int(counted.get["dropped"])

    def release(self) -> None:
        """Let go of the cached batch."""
        if self._cached is not None:
            self._cached.unpersist()
            self._cached = None

    def expire(self, watermark_us: int) -> None:
        """Delete the keys that the watermark has passed, folder by folder."""
        self.folders.remove(self.folders.passed(watermark_us)[1])

    def forget_after(self, number: int) -> None:
        """Forget the keys of commits that never were."""
        self.folders.forget_after(number)

    def _columns(self, batch: DataFrame) -> str:
        """Write the columns of remembered keys as DDL."""
        types = {f.name.lower(): f.dataType for f in batch.schema.fields}
        for key in self.keys:
            if not _can_be_hashed(types[key.lower()]):
                raise WrongType(
                    f'column "{key}" cannot be a key of rows: it is {written_type(types[key.lower()])}',
                    hint="Name columns whose values can be compared.",
                )
        keys = [f"{quoted(k)} {written_type(types[k.lower()])}" for k in self.keys]
        return ", ".join([*keys, f"{TIME} bigint"])

    def _marked(self, batch: DataFrame, columns: str, watermark_us: int, ahead_us: int) -> DataFrame:
        """Number the rows of each key: a remembered one first, then by time, then by hash."""
        rows = self._described(batch, ahead_us)
        remembered = self.folders.read(self.session, columns, watermark_us)
        if remembered is not None:
            known = remembered.where(f"{TIME} >= {_fixed(watermark_us, TIME)}").select(
                "*", F.lit(False).alias(_FRESH), F.lit(True).alias(_KEYED), F.lit(0).cast("bigint").alias(_HASH)
            )
            rows = rows.unionByName(known, allowMissingColumns=True)
        # Rows without a key are nobody's repetition. Spread by their hash, they do not all meet in one task.
        parts = ", ".join([*map(quoted, self.keys), f"IF({_KEYED}, 0L, {_HASH})"])
        place = f"row_number() OVER (PARTITION BY {parts} ORDER BY {_FRESH}, {TIME}, {_HASH})"
        return rows.select("*", F.expr(place).alias(_PLACE)).where(_FRESH)

    def _described(self, batch: DataFrame, ahead_us: int) -> DataFrame:
        """Add to rows their time, whether they have a key, and a hash to order equal times by."""
        hashed = [F.col(quoted(f.name)) for f in batch.schema.fields if _can_be_hashed(f.dataType)]
        present = [f"{quoted(k)} IS NOT NULL" for k in self.keys]
        rows = batch.select("*", F.expr(micros_of(self.time)).alias(TIME), F.xxhash64(*hashed).alias(_HASH))
        keyed = " AND ".join([is_valid(TIME, ahead_us), *present])
        return rows.select("*", F.lit(True).alias(_FRESH), F.expr(keyed).alias(_KEYED))


def _fixed(number: int, of: str) -> str:
    """Write a number that changes with every batch so that the generated code does not."""
    return f"element_at({longs([number, FLOOR])}, IF({of} IS NULL, 2, 1))"


def _can_be_hashed(type_: DataType) -> bool:
    """Tell whether Spark can hash and compare values of a type."""
    match type_:
        case MapType() | VariantType():
            return False
        case ArrayType():
            return _can_be_hashed(type_.elementType)
        case StructType():
            return all(_can_be_hashed(f.dataType) for f in type_.fields)
    return True
