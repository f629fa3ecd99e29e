"""Executors of a local cluster are killed in the middle of batches: it goes on, or stops clearly and then goes on."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import psutil
import pyspark

from penstock.engine import Engine
from penstock.errors import PenstockError
from tests.always.extremes.fields import expected, judge, mixed, prepare, session, write_files, wrong
from tests.always.extremes.trial import Trial

FILES = 24
KILLS = 8


def run(trial: Trial, files: int = FILES, kills: int = KILLS) -> None:
    """Kill executors while groupings are kept by the driver, then while executors keep them."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"}
    spark = session("800m", **settings)
    source, questions = trial.folder / "files", mixed(12)
    write_files(source, range(files))
    model = expected(files, questions)
    for name, max_driver_groups in (("driver", 50_000), ("executors", 2)):
        state, stops = trial.folder / name, 0
        killer = Killer(random.Random(name), kills)
        with killer:
            while True:
                with Engine(state, spark=spark, max_driver_groups=max_driver_groups) as engine:
                    prepare(engine, source, questions)
                    try:
                        engine.process_available(flush=True)
                    except PenstockError as error:
                        trial.say(f"    {error}")
                        stops += 1
                        if not trial.claim(f"groups kept by the {name}: it stops clearly", stops < 10, error):
                            break
                        continue
                    except BaseException as error:
                        trial.claim(f"groups kept by the {name}: it stops clearly", False, repr(error))
                        break
                    kept = engine.stream("s").pipeline.groupings.spread
                    judge(trial, f"groups kept by the {name}: the answers are the model's", wrong(engine, model))
                    break
        trial.claim(
            f"groups kept by the {name}: executors did keep groupings", bool(kept) == (name == "executors"), kept
        )
        trial.measure(f"{name}_kills", killer.done)
        trial.measure(f"{name}_stops", stops)


class Killer:
    """Kills an executor every few seconds while something else works."""

    def __init__(self, draw: random.Random, most: int) -> None:
        self.draw, self.most, self.done = draw, most, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while self.done < self.most and not self._over.wait(self.draw.uniform(1.0, 6.0)):
            if executors := _executors():
                self.draw.choice(executors).kill()
                self.done += 1


def _executors() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found
