"""Runs the scenarios of some seeds; a disagreement is made small and printed with the line that repeats it.

``python -m tests.always.combinations --seeds 0-499 --json found.json``
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.always.combinations.scenario import Scenario, drawn
from tests.always.combinations.shrinking import fewest
from tests.always.combinations.together import Together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, scenario: Scenario) -> Counter[str]:
    """Run one scenario; raise where engine and meaning disagree."""
    with tempfile.TemporaryDirectory(prefix="penstock-together-") as folder:
        together = Together(spark, Path(folder), scenario)
        try:
            together.run()
        except BaseException:
            try:
                together.close()
            except BaseException as error:  # what went wrong before is what matters
                print(f"  (and closing: {type(error).__name__})", flush=True)
            raise
        together.close()
        return together.done


def trouble(spark: SparkSession, scenario: Scenario, done: Counter[str] | None = None) -> str | None:
    """Run one scenario; return what went wrong, or None."""
    try:
        found = run(spark, scenario)
        if done is not None:
            done.update(found)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        places = [f"{Path(p.filename).name}:{p.lineno} {p.name}" for p in traceback.extract_tb(error.__traceback__)]
        return f"{type(error).__name__}: {str(error)[:1500]}\n{notes}\nat {', '.join(places[-8:])}"
    return None


def main() -> int:
    from penstock.spark.session.embedded import embedded
    from tests.conftest import KEEP_CODE

    options = _options()
    low, _, high = options.seeds.partition("-")
    spark, found, done, begun = embedded(settings=KEEP_CODE), [], Counter[str](), time.monotonic()
    seeds = range(int(low), int(high or low) + 1)
    for seed in seeds:
        scenario, at = drawn(seed), time.monotonic()
        if options.keep:
            scenario = scenario.kept([int(place) for place in options.keep.split(",")])
        if options.show:
            print(scenario)
        error = trouble(spark, scenario, done)
        print(f"seed {seed}: {'agrees' if error is None else 'DISAGREES'} ({time.monotonic() - at:.1f} s)", flush=True)
        if error is None:
            continue
        print(error, flush=True)
        found.append({"seed": seed, "error": error})
        if options.shrink:
            places = fewest(scenario, lambda fewer: trouble(spark, fewer), error)
            print(scenario.kept(places))
            print(f"python -m tests.always.combinations --seeds {seed} --keep {','.join(map(str, places))}", flush=True)
    print(f"{len(seeds)} seeds, {len(found)} disagree, {time.monotonic() - begun:.0f} s")
    print(", ".join(f"{number:,} {kind}" for kind, number in done.most_common()))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.always.combinations")
    parser.add_argument("--seeds", default="0-9", help="a seed, or the first and the last one")
    parser.add_argument("--keep", default="", help="numbers of the steps to take, of all of them")
    parser.add_argument("--shrink", action="store_true", help="leave out steps for as long as it goes wrong")
    parser.add_argument("--show", action="store_true", help="print every scenario")
    parser.add_argument("--json", default="", help="a file for what was found")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
