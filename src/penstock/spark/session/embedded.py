"""Starts the embedded local Spark session, or checks that a given session fits."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.errors import EnvironmentProblem, PenstockError
from penstock.printable import block
from penstock.spark.session.class_archive import archive_options
from penstock.spark.session.exit_noise import without_dying_words
from penstock.spark.session.local_files import set_permissions_within_java
from penstock.spark.session.pools import fair_settings

# Spark says so whenever a vectorised function is made beside pandas 3; Penstock hands it no data frame.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

OLDEST_JAVA: Final = 17
OLDEST_SPARK: Final = (4, 3)

_INSTALL_JAVA: Final = (
    "Install a JDK 17 or newer, e.g. `apt install openjdk-17-jre-headless` or `brew install openjdk@17`, "
    "or set JAVA_HOME to one."
)
# The JVM itself prints this for an option that Spark always passes; no setting silences it.
_CHATTER: Final = (b"WARNING: Using incubator modules", b"Warning: Java versions > Java 11 can only operate in")


# Chosen by a short measurement of quiet micro-batches of 1,000 rows on two cores. Locality waits, batches retained,
# checkpoint checksums and interpreted plans moved less than two runs of the same settings differ: Spark's values stay.
_LATENCY: Final[Mapping[str, str]] = {
    # Writing the offset and the commit file took 6 ms each instead of 27, before files were written without other
    # processes (local_files.py). Its check that nobody else wrote the file is
    # not atomic, which is enough here: a state folder has one owner.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # No difference in time could be seen; off, plans stay as built, and so does the code generated for them.
    "spark.sql.adaptive.enabled": "false",
    # Local files open at once. At the default of 4 MB, a batch of a few MB is one task, and the other cores wait.
    "spark.sql.files.openCostInBytes": str(256 << 10),
    # A task keeps its first groups in a map made for them, at the default 65,536, and others in a slower one: with
    # 150,000 groups a batch the job takes a quarter less time.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "18",
    # Spark lists every file it has read in every tenth file of its log, and keeps these for ten minutes: at two batches
    # a second that was most of a state folder after half an hour. Every hundredth, kept for a minute, is enough here.
    "spark.sql.streaming.fileSource.log.compactInterval": "100",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1min",
}


@dataclass(slots=True)
class _Running:
    """The one embedded session of this process; a JVM holds at most one Spark context."""

    session: SparkSession | None = None


_RUNNING = _Running()
_LOCK = threading.Lock()


def embedded(
    *, cores: int | None = None, memory: str = "2g", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a quiet local session made for Penstock, or return the one that runs; ``settings`` override ours."""
    with _LOCK:
        if (running := _embedded_or_active()) is not None:
            return adopt(running)
        _refuse_remote_environment()
        java = check_java()
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        conf = _conf(java, cores or os.cpu_count() or 1, memory, settings or {})
        _launch_jvm(conf)
        _quiet_python()
        _RUNNING.session = SparkSession(SparkContext(conf=conf))
        set_permissions_within_java(_RUNNING.session)
        return adopt(_RUNNING.session)


def stop_embedded() -> None:
    """Stop the embedded session, if one runs; a user's own session is left alone."""
    with _LOCK:
        if _RUNNING.session is not None:
            _RUNNING.session.stop()
            _RUNNING.session = None


def jvm_ended(within_s: float = 0.5) -> bool:
    """Tell whether the JVM that this process started has ended, or ends in a moment."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def spark_is_over() -> bool:
    """Tell whether the Spark context was shut down, or its JVM has ended."""
    context = SparkContext._active_spark_context
    try:
        return context is None or context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, ConnectionError):
        return True


def ended(session: SparkSession, before: str = "") -> EnvironmentProblem | None:
    """Return the error for a session that was stopped, or whose JVM has ended; None: it is alive."""
    context: Any = session.sparkContext
    try:
        if context._jsc is not None and not context._jsc.sc().isStopped():
            return None
    except (Py4JError, ConnectionError):
        return gone_away(before)
    hint = "Open the state folder again with a session that runs: nothing committed is lost."
    return EnvironmentProblem(f"{before}the Spark session was stopped", hint=hint)


Given = ParamSpec("Given")
Result = TypeVar("Result")


def telling_the_end(
    session_of: Callable[[Any], SparkSession],
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Let a method say so if it fails because a session has ended; ``session_of`` finds that of its object."""

    def telling(method: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(method)
        def told(*given: Given.args, **named: Given.kwargs) -> Result:
            try:
                return method(*given, **named)
            except PenstockError:
                raise
            except Exception as error:
                if (problem := ended(session_of(given[0]))) is None:
                    raise
                raise problem from error

        return told

    return telling


def gone_away(before: str = "") -> EnvironmentProblem:
    """Word the end of a JVM; ``before`` says what it ended."""
    hint = "Look for what ended it, such as too little memory, and start again: nothing committed is lost."
    return EnvironmentProblem(f"{before}the Java process of Spark has gone away", hint=hint)


def adopt(session: SparkSession) -> SparkSession:
    """Return the session unchanged if Penstock can run on it; otherwise say what is missing."""
    if any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(session).__mro__):
        raise EnvironmentProblem(
            "a Spark Connect session cannot run Penstock",
            detail="The catalog of queries lives in the driver process, which a Connect client cannot reach.",
            hint="Run the program on the driver (spark-submit, or a classic session), or let Penstock start its own.",
        )
    _check_version(session.version)
    return session


def check_java() -> Path:
    """Return the Java that Spark will start, having made sure that it runs and is new enough."""
    java = _find_java()
    run = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False, errors="replace")
    found = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    if run.returncode != 0 or found is None:
        raise EnvironmentProblem(f"{java} does not run", detail=run.stderr.strip()[:300] or None, hint=_INSTALL_JAVA)
    if (version := int(found[1])) < OLDEST_JAVA:
        raise EnvironmentProblem(
            f"Java {version} is too old; Spark needs Java {OLDEST_JAVA} or newer",
            detail=f"Found {java}.",
            hint=_INSTALL_JAVA,
        )
    return java


def _find_java() -> Path:
    """Look where Spark's own launcher looks: JAVA_HOME if set, otherwise the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise EnvironmentProblem(f"JAVA_HOME is {home}, but there is no Java in it", hint=_INSTALL_JAVA)
        return java
    if (found := shutil.which("java")) is None:
        raise EnvironmentProblem("no Java found: JAVA_HOME is not set and there is no java on PATH", hint=_INSTALL_JAVA)
    return Path(found)


def _check_version(version: str) -> None:
    """Refuse a Spark older than we know to work."""
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SPARK:
        raise EnvironmentProblem(
            f"Spark {version} is too old; Penstock needs Spark {'.'.join(map(str, OLDEST_SPARK))} or newer",
            hint="Install pyspark 4.3, and unset SPARK_HOME if it names an older Spark.",
        )


def _embedded_or_active() -> SparkSession | None:
    """Return the session that this process runs already, ours or the program's."""
    ours = _RUNNING.session
    # A stopped context has no Java side; somebody may have stopped ours with session.stop().
    if ours is not None and ended(ours) is None:
        return ours
    _RUNNING.session = None
    if jvm_ended(0):
        _forget_jvm()
    if (context := SparkContext._active_spark_context) is None:
        return None
    return SparkSession.getActiveSession() or SparkSession(context)


def _forget_jvm() -> None:
    """Let another JVM take the place of one that has ended: pyspark knows one for all time, and columns are kept."""
    from penstock.spark.job import attempt, writer
    from penstock.spark.job import binary_search as searching
    from penstock.spark.job import jvm_columns as columns

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    kept = columns._parse, columns.written, attempt.attempt_text, searching.search, searching._table, writer._searched
    for one in kept:
        one.cache_clear()


def _refuse_remote_environment() -> None:
    """Refuse to start where pyspark is set up to talk to a Connect server."""
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if name in os.environ:
            raise EnvironmentProblem(
                f"{name} is set, so Spark would be reached through Spark Connect",
                detail="The catalog of queries lives in the driver process, which a Connect client cannot reach.",
                hint=f"Unset {name}, or run the program on the driver.",
            )


def _conf(java: Path, cores: int, memory: str, settings: Mapping[str, str]) -> SparkConf:
    """Put together our settings and the caller's, the caller's last."""
    scratch = Path(tempfile.gettempdir(), "penstock-warehouse")
    values = {
        "spark.app.name": "penstock",
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Without its pages nobody reads Spark's history of jobs; at its usual length it grows for a thousand batches.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no statistics and decodes slowly
        "spark.sql.ansi.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch),
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        **fair_settings(),
        **_LATENCY,
        **settings,
    }
    values["spark.driver.extraJavaOptions"] = _java_options(java, settings.get("spark.driver.extraJavaOptions", ""))
    conf = SparkConf(loadDefaults=False)
    return conf.setAll(list(values.items()))


def _java_options(java: Path, extra: str) -> str:
    """Write the JVM's options: our log settings, compilation of the large methods of many queries, and kept classes."""
    log4j = resources.files("penstock") / "data" / "log4j2.properties"
    # HotSpot leaves methods over 8,000 bytes interpreted unless told otherwise, 30 times slower.
    ours = f'-XX:-DontCompileHugeMethods "-Dlog4j2.configurationFile={log4j}" -Duser.timezone=UTC'
    kept = archive_options(java, f"{extra} {os.environ.get('SPARK_SUBMIT_OPTS', '')}")
    return " ".join(options for options in (ours, kept, extra) if options)


def _launch_jvm(conf: SparkConf) -> None:
    """Start the JVM with all that it prints passed through us, to standard error, so that known chatter can be dropped.

    A JVM may live on for seconds to write its archive of classes: it must not keep a pipe open that others read.
    """
    if SparkContext._gateway is not None:
        return  # the JVM outlives a stopped session and is used again
    others = {child.pid for child in psutil.Process().children(recursive=True)}
    reader, writer = os.pipe()
    tail: deque[bytes] = deque(maxlen=20)
    threading.Thread(target=_forward, args=(reader, tail), name="spark-stderr", daemon=True).start()
    try:
        printed = {"stdout": writer, "stderr": writer}
        gateway = launch_gateway(conf, popen_kwargs=printed)  # type: ignore[no-untyped-call]
    except (PySparkException, OSError) as error:
        detail = b"".join(tail).decode(errors="replace").strip()
        raise EnvironmentProblem(
            "Spark's JVM did not start", detail=detail or str(error), hint=_INSTALL_JAVA
        ) from error
    except BaseException:  # Ctrl-C: a JVM that finds nobody to connect to would stay for ever
        for child in psutil.Process().children(recursive=True):
            if child.pid not in others:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        raise
    finally:
        os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


def _quiet_python() -> None:
    """Keep pyspark from printing every exception as JSON besides raising it."""
    if "PENSTOCK_SPARK_LOG" not in os.environ:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what a batch raises reaches the caller


def _forward(reader: int, tail: deque[bytes]) -> None:
    """Copy what the JVM prints to our standard error by lines, without the chatter and what would steer a terminal."""
    with os.fdopen(reader, "rb") as lines:
        for line in without_dying_words(lines):
            if not line.startswith(_CHATTER):
                tail.append(line)
                os.write(2, block(line.decode(errors="replace")).encode())
