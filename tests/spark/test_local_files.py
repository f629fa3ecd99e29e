"""The embedded Spark sets permissions of local files as Hadoop does, without starting a process for each."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.spark.session.local_files import SWITCH, set_permissions_within_java


def local(spark: SparkSession) -> Any:
    """Return Hadoop's file system for local files, as everybody in the JVM is given it."""
    context: Any = spark.sparkContext
    return context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())


def hadoop(spark: SparkSession, name: str, *arguments: object) -> Any:
    """Make an object of one of Hadoop's classes."""
    context: Any = spark.sparkContext
    return getattr(context._jvm.org.apache.hadoop.fs, name)(*arguments)


def test_local_files_are_written_by_ours(spark: SparkSession) -> None:
    assert local(spark).getRawFileSystem().getClass().getName() == "penstock.LocalFiles"


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o777, 0o1777, 0o400])
def test_permissions_are_set_as_they_are_asked_for(spark: SparkSession, tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "a folder with spaces, %20 and ünïcode"
    folder.mkdir()
    context: Any = spark.sparkContext
    permission = context._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")
    local(spark).setPermission(hadoop(spark, "Path", str(folder)), permission)
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_spark_writes_files_with_the_permissions_and_checksums_that_it_always_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    files = [path for path in (tmp_path / "rows").iterdir() if path.suffix == ".parquet"]
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}
    assert all(path.with_name(f".{path.name}.crc").exists() for path in files)


def test_a_file_that_is_not_there_is_told_as_an_error(spark: SparkSession, tmp_path: Path) -> None:
    context: Any = spark.sparkContext
    permission = context._jvm.org.apache.hadoop.fs.permission.FsPermission("644")
    with pytest.raises(Exception, match="NoSuchFile"):
        local(spark).setPermission(hadoop(spark, "Path", str(tmp_path / "missing")), permission)


def test_it_can_be_switched_off(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert not set_permissions_within_java(spark)
