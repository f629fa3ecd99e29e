"""Sessions: Java is checked before Spark starts, workers are our own Python, and nothing is printed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from penstock.errors import EnvironmentProblem
from penstock.spark.session.embedded import adopt, check_java, embedded

START = "from penstock.spark.session.embedded import embedded\ntry: embedded()\nexcept Exception as error: print(error)"
FRESH = """
import os
from pathlib import Path
from pyspark.sql import functions as F
from penstock.spark.session.embedded import embedded, stop_embedded
spark = embedded(cores=1)
assert spark.range(10).count() == 10
assert spark.sparkContext.parallelize([1], 1).map(lambda x: x + 1).collect() == [2]
try:
    spark.sql("SELECT cast('x' AS int)").collect()
except Exception:
    pass
try:
    spark.range(1).withColumn('x', 1 / F.col('id')).collect()
except Exception:
    pass
bad = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().selectExpr("1 / value AS x")
query = bad.writeStream.format("noop").trigger(availableNow=True).start()
try:
    query.awaitTermination()
except Exception:
    pass
stop_embedded()
assert embedded(cores=1).range(10).count() == 10
held = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/fd")  # by Java, which ends after Python
if held.is_dir():
    ours = {os.fstat(1).st_ino, os.fstat(2).st_ino}
    assert ours.isdisjoint(handle.stat().st_ino for handle in held.iterdir() if handle.exists())
"""


def fake_java(folder: Path, body: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{body}\n")
    java.chmod(0o755)
    return java


def run_python(program: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PENSTOCK_SPARK_LOG", "PYTHONWARNINGS")}
    # With pandas 3 installed pyspark warns on import; that is neither ours nor Spark's start.
    command = [sys.executable, "-W", "ignore:PySpark does not yet fully support pandas", "-c", program]
    return subprocess.run(command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False)


def test_a_missing_java_is_one_clear_error(tmp_path: Path) -> None:
    done = run_python(START, tmp_path, PATH=str(tmp_path))
    assert done.stdout.startswith("error[EnvironmentProblem]: no Java found")
    assert "hint: Install a JDK 17 or newer" in done.stdout
    assert done.stderr == ""


def test_an_old_java_is_one_clear_error(tmp_path: Path) -> None:
    fake_java(tmp_path, """echo 'openjdk version "1.8.0_392"' >&2""")
    done = run_python(START, tmp_path, PATH=str(tmp_path))
    assert done.stdout.startswith("error[EnvironmentProblem]: Java 8 is too old; Spark needs Java 17 or newer")
    assert "hint: Install a JDK 17 or newer" in done.stdout
    assert done.stderr == ""


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="there is no Java in it"):
        check_java()


def test_a_java_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", "echo 'Unable to locate a Java Runtime' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="Unable to locate a Java Runtime"):
        check_java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_newer_javas_are_taken(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path / "bin", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java() == java


@pytest.mark.starts_spark
def test_a_fresh_process_prints_nothing_leaves_no_files_and_lets_no_reader_wait_for_java(tmp_path: Path) -> None:
    done = run_python(FRESH, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_remote_environment_is_refused(tmp_path: Path) -> None:
    done = run_python(START, tmp_path, SPARK_REMOTE="sc://localhost")
    assert done.stdout.startswith("error[EnvironmentProblem]: SPARK_REMOTE is set")


def test_workers_run_the_engines_interpreter(spark: SparkSession) -> None:
    def interpreter(_: int) -> str:
        import sys

        return sys.executable

    assert spark.sparkContext.parallelize([0], 1).map(interpreter).collect() == [sys.executable]


def test_what_java_prints_is_no_output_of_a_command(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    cast(Any, spark.sparkContext._jvm).java.lang.System.out.println("said by Java")
    printed = capfd.readouterr()
    until = time.monotonic() + 60
    while "said by Java" not in printed.err and time.monotonic() < until:
        time.sleep(0.01)
        printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "said by Java\n")


def test_asking_twice_gives_the_same_session(spark: SparkSession) -> None:
    assert embedded(cores=1) is spark


def test_times_are_utc_and_arithmetic_is_ansi(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_large_generated_methods_are_compiled(spark: SparkSession) -> None:
    bean = cast(Any, spark.sparkContext._jvm).java.lang.management.ManagementFactory.getRuntimeMXBean()
    assert "-XX:-DontCompileHugeMethods" in list(bean.getInputArguments())


def test_a_connect_session_is_refused_with_the_reason() -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(EnvironmentProblem, match="catalog of queries lives in the driver"):
        adopt(cast(SparkSession, remote))


def test_an_older_spark_is_refused() -> None:
    old = type("SparkSession", (), {"version": "4.2.1"})()
    with pytest.raises(EnvironmentProblem, match=r"Spark 4\.2\.1 is too old; Penstock needs Spark 4\.3 or newer"):
        adopt(cast(SparkSession, old))


def test_a_fitting_session_is_taken_as_it_is(spark: SparkSession) -> None:
    assert adopt(spark) is spark
