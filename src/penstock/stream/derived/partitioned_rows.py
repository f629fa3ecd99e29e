"""Runs the rows of a stream, numbered apart by keys, as a stream of its own: what PARTITION BY asks for."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kernel.partitions import PartitionedSynopsis, Partitions
from penstock.kernel.row_order import numbers_apart
from penstock.model.window import RowsWindow
from penstock.spark.kept_rows.row_numbers import count_parts, number_parts
from penstock.stream.derived.row_windows import RowWindowStream
from penstock.stream.pipeline import Pipeline


class PartitionedRowStream(RowWindowStream):
    """The rows of a stream, numbered apart by keys, and the queries over them that began together."""

    def _number_until(self, stop_us: int) -> None:
        """Number the rows up to a time, each key's on its own, and let it be a batch."""
        self.pipeline.plan(self.snapshot())  # tells the parts
        if (parts := _parts_of(self.pipeline)) is not None:
            window = self.catalog.definitions(self.stream.name)[0].query.window
            assert isinstance(window, RowsWindow)
            rows = self._ordered(stop_us)
            if rows is None:
                self._number_in_spark(parts, window.partition, stop_us)
            elif rows.num_rows:
                self._process_held(rows, numbers_apart(parts, rows, window.partition), stop_us)
        self._until_us = stop_us

    def _number_in_spark(self, parts: Partitions, partition: Sequence[str], stop_us: int) -> None:
        """Let Spark number the rows up to a time, if there are any."""
        assert self._until_us is not None
        found = self.leader.pipeline.intake.waiting.rows(self.session(), self._until_us, stop_us)
        keys = None if found is None else count_parts(found[0], partition)
        if found is not None and keys is not None and keys.num_rows:
            firsts = parts.next_numbers([keys[name] for name in partition])
            numbered = number_parts(found[0], self.leader.stream.columns, partition, keys, firsts)
            self.pipeline.process(numbered, self.batch_of(stop_us), self.snapshot())


def _parts_of(pipeline: Pipeline) -> Partitions | None:
    """Return a pipeline's parts."""
    assert isinstance(pipeline.synopsis, PartitionedSynopsis)
    return pipeline.synopsis.parts
