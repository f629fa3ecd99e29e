"""Opens a stream's source after a restart while its commits are read back: Spark does the one, Python the other.

Opening reads no row and begins no batch; that is left to the stream's Spark query, which starts when everything is
back. What fails while it is opened ahead is tried again when the source is needed, so errors come when they always do.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.model.derived import FED
from penstock.model.schema import Stream
from penstock.stream.declared_sources import DeclaredSources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SourceOpening:
    """Opens the source of one stream, when it is asked for or before."""

    def __init__(self, sources: DeclaredSources, stream: Stream) -> None:
        """Begin nothing yet."""
        self._sources, self._stream = sources, stream
        self._thread: threading.Thread | None = None
        self._frame: DataFrame | None = None

    def begin(self) -> None:
        """Open a declared source in a thread of its own; a program's own, or another stream, is there anyway.

        A process that ends waits for the thread, so that Spark does not end in the middle of it.
        """
        if self._thread is None and self._stream.format not in (None, *FED):
            self._thread = threading.Thread(target=self._run, name="penstock-source")
            self._thread.start()

    def _run(self) -> None:
        """Open it, unless that fails."""
        with suppress(Exception):
            self._frame = self._sources.open(self._stream)

    def __call__(self) -> DataFrame:
        """Return the source as a frame; one that was opened ahead is looked at again, as files may be gone since."""
        if self._thread is not None:
            self._thread.join()
        if self._frame is None:
            return self._sources.open(self._stream)
        self._sources.check(self._stream)
        return self._frame
