"""Does a stream's upkeep in a thread of its own, between batches and while their jobs run.

A stream in the background has the desk for that. This is for one that processes what is there and returns: no batch of
it puts files together, and all of it is done when it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.model.garbage_collection import GARBAGE

if TYPE_CHECKING:
    from penstock.stream.pipeline import Pipeline

LOOK_S: Final = 0.01  # between two looks, while there is nothing to do
GIVES_WAY_S: Final = 0.001  # between two looks, while a step of the stream is under way


@contextmanager
def upkeep_aside(pipeline: Pipeline) -> Iterator[None]:
    """Let upkeep wait for moments in which no step of the stream is under way; all of it is done in the end.

    What it raises, the next step of the stream raises.
    """
    done = threading.Event()
    thread = threading.Thread(target=_work, args=(pipeline, done), name="penstock-upkeep", daemon=True)
    pipeline.defers_upkeep = True
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        pipeline.defers_upkeep = False
    pipeline.finish_upkeep()
    GARBAGE.catch_up()


def _work(pipeline: Pipeline, done: threading.Event) -> None:
    """Do piece after piece, until the stream has done what there was."""
    while not done.wait(GIVES_WAY_S if pipeline.upkeep else LOOK_S):
        try:
            while not done.is_set() and pipeline.upkeep and pipeline.is_free and pipeline.do_upkeep():
                pass
            if pipeline.is_free and pipeline.committer.order.under_way.since_us is None:
                GARBAGE.catch_up()
        except BaseException as error:
            pipeline.failure = error
            return
