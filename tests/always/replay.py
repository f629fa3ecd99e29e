"""The steps of a run that went wrong in, the fewest that still go wrong out.

Runs leave their steps in the folder that PENSTOCK_STEPS names; ``python -m tests.always.replay FILE`` makes them fewer.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from tests.always.judged import Judged, Setting, Taken, instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = "PENSTOCK_STEPS"


def keep(judged: Judged) -> None:
    """Write a run's steps into the folder for them, if there is one."""
    folder = os.environ.get(STEPS)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{os.getpid()}-{len(os.listdir(folder))}.steps"
        path.write_bytes(pickle.dumps((judged.setting, judged.durable, judged.taken)))


def fails(spark: SparkSession, setting: Setting, durable: bool, steps: list[Taken]) -> str | None:
    """Take the steps that make sense; return what went wrong, or None."""
    with tempfile.TemporaryDirectory(prefix="penstock-replay-") as folder:
        judged = Judged(spark, Path(folder), setting, durable=durable)
        try:
            for clock, step, arguments in steps:
                if _makes_sense(judged, step, arguments):
                    judged.clock.set(instant(clock))
                    _take(judged, step, arguments)
                    judged.check()
            judged.flush()
            judged.check_all_delivered()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            judged.close()
    return None


def _makes_sense(judged: Judged, step: str, arguments: tuple[object, ...]) -> bool:
    known = judged.model.queries
    if step == "create":
        return arguments[0] not in known
    return step not in ("alter", "drop", "pause", "resume", "backfill") or arguments[0] in known


def _take(judged: Judged, step: str, arguments: tuple[object, ...]) -> None:
    try:
        getattr(judged, step)(*arguments)
    except PenstockError:
        if step not in ("ask", "backfill"):
            raise


def fewest(spark: SparkSession, setting: Setting, durable: bool, steps: list[Taken]) -> list[Taken]:
    """Leave out stretches of steps, shorter and shorter, for as long as the rest goes wrong."""
    size = max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fails(spark, setting, durable, fewer) is not None:
                steps = fewer
                print(f"{len(steps)} steps", flush=True)
            else:
                at += size
        if size == 1:
            return _fewest_rows(spark, setting, durable, steps)
        size = max(1, size // 2)


def _fewest_rows(spark: SparkSession, setting: Setting, durable: bool, steps: list[Taken]) -> list[Taken]:
    for place, (clock, step, arguments) in enumerate(steps):
        for row in reversed(arguments[0]) if step == "feed" else ():
            rows = [r for r in steps[place][2][0] if r is not row]
            fewer = [*steps[:place], (clock, step, (rows,)), *steps[place + 1 :]]
            if fails(spark, setting, durable, fewer) is not None:
                steps = fewer
    return steps


def main(path: str) -> None:
    from penstock.spark.session.embedded import embedded

    setting, durable, steps = pickle.loads(Path(path).read_bytes())
    spark = embedded()
    print(fails(spark, setting, durable, steps))
    steps = fewest(spark, setting, durable, steps)
    print(setting, durable)
    for clock, step, arguments in steps:
        print(clock, step, *arguments)
    print(fails(spark, setting, durable, steps))


if __name__ == "__main__":
    main(sys.argv[1])
