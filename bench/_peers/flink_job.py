"""Runs statement sets in Flink, one for every line of JSON that it is sent.

It runs in Flink's own Python and imports nothing of ours. A line names settings, tables (``CREATE TABLE`` statements)
and inserts. The answer is a line that starts with ``FLINK``. It tells how long the job ran, and how long it took to
plan it and to start Flink's local cluster; or why it failed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment

MARK = "FLINK "  # other lines are Flink's own


def run(asked: dict[str, Any]) -> dict[str, float]:
    """Run all inserts as one job until its files are committed."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in asked["settings"].items():
        tables.get_config().set(name, value)
    for statement in asked["tables"]:
        tables.execute_sql(statement)
    began = time.perf_counter()
    together = tables.create_statement_set()
    for insert in asked["inserts"]:
        together.add_insert_sql(insert)
    result = together.execute()
    result.wait()
    whole = time.perf_counter() - began
    ran = result.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000
    return {"seconds": ran, "creating_seconds": whole - ran}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Run a job; if it fails, tell why."""
    try:
        return run(asked)
    except Exception as error:  # whatever Java throws
        return {"failed": str(error)}


def main() -> None:
    """Answer every line of standard input until it ends."""
    for line in sys.stdin:
        print(MARK + json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
