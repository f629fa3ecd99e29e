"""Features together: whatever a seed puts side by side, the engine says what plain Python says."""

from __future__ import annotations

import ast
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.always.combinations.__main__ import run
from tests.always.combinations.mortal import COLUMNS
from tests.always.combinations.ordering import row_hash
from tests.always.combinations.scenario import Scenario, drawn
from tests.always.combinations.shrinking import fewest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
MEANING = ("expressions.py", "ordering.py", "queries.py", "meaning.py")
FIXED = (352, 354, 362, 363, 369, 377)  # quick ones that have much of everything
PARTS, SEEDS = 10, 50  # of the long run; each part can be run on its own
pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # of runs that were given up


@pytest.mark.parametrize("seed", FIXED)
def test_features_together_mean_what_they_mean_alone(spark: SparkSession, seed: int) -> None:
    assert run(spark, drawn(seed))["answers"]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_five_hundred_fresh_seeds_agree(spark: SparkSession, part: int) -> None:
    fresh, done = random.SystemRandom().randrange(1 << 40), Counter[str]()
    for seed in range(fresh, fresh + SEEDS):
        try:
            done += run(spark, drawn(seed))
        except Exception as error:
            error.add_note(f"python -m tests.always.combinations --shrink --seeds {seed}")
            raise
    print(f"part {part}, seeds from {fresh}: {dict(done.most_common())}")
    assert {"feed", "create", "drop", "pause", "restart", "ask", "death in a step", "revisions"} <= done.keys()


def test_a_seed_draws_one_scenario_and_hundreds_have_everything() -> None:
    assert str(drawn(5)) == str(drawn(5))
    steps = [step for seed in range(300) for step in drawn(seed).steps]
    texts = [step.query.sql() for step in steps if step.query is not None]
    assert {step.kind for step in steps} >= {"feed", "heartbeat", "create", "ask", "restart", "die", "arm", "table"}
    for words in (
        "ROLLUP",
        "CUBE",
        "GROUPING SETS",
        "PARTITION BY",
        "ROWS",
        "window(",
        "JOIN t",
        "emit",
        "revise",
        "LIMIT",
        "DISTINCT",
    ):
        assert any(words in text for text in texts), words


def test_the_meaning_shares_no_code_with_the_engine() -> None:
    for name in MEANING:
        for node in ast.walk(ast.parse((HERE / name).read_text())):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [m for m in modules if m and m.split(".")[0] in ("penstock", "pyspark", "pyarrow")], name


def test_rows_are_hashed_as_spark_does(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rows: list[dict[str, Any]] = [
        {"id": 1, "ts": 1_767_571_200_123_456, "k": "abc", "j": 3, "v": -4, "x": -0.0, "d": Decimal("-1.25")},
        {
            "id": None,
            "ts": 5,
            "k": "a longer text, of 29 signs ä.",
            "j": None,
            "v": 2**40,
            "x": float("nan"),
            "d": None,
        },
        {"id": 7, "ts": 7, "k": "", "j": -1, "v": 0, "x": -2.75, "d": Decimal("12.00")},
    ]
    types = dict(COLUMNS) | {"ts": "bigint"}
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in rows], ", ".join(f"{n} {t}" for n, t in types.items())
    )
    hashed = frame.withColumn("ts", F.timestamp_micros("ts")).select(F.xxhash64(*types)).collect()
    assert [row_hash(row, COLUMNS) for row in rows] == [value for (value,) in hashed]


def test_a_disagreement_is_made_small() -> None:
    scenario = drawn(1)
    needed = {2, len(scenario.steps) - 1}
    wanted = [scenario.steps[place] for place in sorted(needed)]

    def trouble(fewer: Scenario) -> str | None:
        return "AssertionError: …" if all(step in fewer.steps for step in wanted) else None

    assert fewest(scenario, trouble, "AssertionError: …") == sorted(needed)
