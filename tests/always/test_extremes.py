"""What is extreme is tried as the command line of the trials does; the quickest of it is tried always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.engine import Engine
from penstock.errors import StateError
from tests.always.extremes.fields import expected, prepare, write_files, wrong
from tests.always.kills import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The others take longer: python -m tests.always.extremes --list
QUICK = ("two_engines", "session_stopped", "columns_2000")


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", QUICK)
def test_every_claim_of_a_trial_holds(name: str) -> None:
    command = [sys.executable, "-m", "tests.always.extremes", name]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]


def test_a_second_engine_is_refused_and_the_first_goes_on(
    spark: SparkSession, interpreted: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "files", range(3))
    with Engine(tmp_path / "state", spark=spark) as engine:
        prepare(engine, tmp_path / "files")
        with pytest.raises(StateError, match="another engine uses the state folder"):
            Engine(tmp_path / "state", spark=spark)
        engine.process_available(flush=True)
        assert not wrong(engine, expected(3))
