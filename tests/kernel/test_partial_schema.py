"""One module names the columns of partials: what jobs send, what commits keep and what the docs say agree with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.share.partial_schema import COLUMNS, column_called
from penstock.testing import TestBed
from tests.store.sound import partials_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = Path(__file__).parents[2] / "docs" / "state.md"


def documented() -> set[str]:
    """Read the names of columns from the table of partials, numbers written as N."""
    section = STATE.read_text(encoding="utf-8").split("## Partials")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {re.sub(r"\d+", "N", name) for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_page_on_state_has_every_column_that_is_kept_and_no_other() -> None:
    assert documented() == {column.name for column in COLUMNS if column.kept}


def test_every_name_is_one_columns() -> None:
    names = [column.name.replace("N", "3") for column in COLUMNS]
    assert [sum(column.is_called(name) for column in COLUMNS) for name in names] == [1] * len(names)


def test_commits_keep_columns_of_the_schema_with_its_types(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, v INT")
        bed.query("plain", "SELECT count(*) AS n, avg(v) AS a FROM s [RANGE 4 s SLIDE 2 s] WHERE v > 1")
        bed.query(
            "keys",
            "SELECT k, max(v) AS m FROM s [RANGE 6 s SLIDE 3 s] GROUP BY k WITH (late = 'revise', revise_for = '9 s')",
        )
        bed.query("fails", "SELECT sum(6 div v) AS x, count(DISTINCT k) AS d FROM s [RANGE 4 s SLIDE 2 s]")
        for first in (0, 4, 8):
            bed.feed("s", [{"ts": first + i, "k": "ab"[i % 2], "v": i} for i in range(4)])
        bed.feed("s", [{"ts": 7, "k": "a", "v": 9}])
        bed.flush()
    seen: dict[str, pa.DataType] = {}
    for file in partials_in(tmp_path / "commits" / "s"):
        with pa.ipc.open_file(file) as reader:
            seen |= {field.name: field.type for field in reader.schema}
    assert {"label", "s0", "k0", "rows", "last", "late", "corrected", "touched"} <= seen.keys()
    assert any(name.startswith("f") and name.endswith("_rows") for name in seen)
    for name, kind in seen.items():
        column = column_called(name)
        assert column is not None, name
        assert column.kept, name
        assert column.type is None or column.type == kind, (name, kind)
