"""Runs the rows of a stream, numbered apart by keys, as a stream of its own: what PARTITION BY asks for."""

from __future__ import annotations

from penstock.kernel.partitions import PartitionedSynopsis, Partitions
from penstock.model.window import RowsWindow
from penstock.spark.kept_rows.row_numbers import count_parts, number_parts
from penstock.stream.derived.row_windows import RowWindowStream
from penstock.stream.pipeline import Pipeline


class PartitionedRowStream(RowWindowStream):
    """The rows of a stream, numbered apart by keys, and the queries over them that began together."""

    def _number_until(self, stop_us: int) -> None:
        """Number the rows up to a time, each key's on its own, and let it be a batch."""
        assert self._until_us is not None
        waiting, source = self.leader.pipeline.intake.waiting, self.leader.stream
        self.pipeline.plan(self.snapshot())  # tells the parts
        found, parts = waiting.rows(self.session(), self._until_us, stop_us), _parts_of(self.pipeline)
        if found is not None and parts is not None:
            window = self.catalog.definitions(self.stream.name)[0].query.window
            assert isinstance(window, RowsWindow)
            keys = count_parts(found[0], window.partition)
            if keys.num_rows:
                firsts = parts.next_numbers([keys[name] for name in window.partition])
                numbered = number_parts(found[0], source.columns, window.partition, keys, firsts)
                self.pipeline.process(numbered, self.batch_of(stop_us), self.snapshot())
        self._until_us = stop_us


def _parts_of(pipeline: Pipeline) -> Partitions | None:
    """Return a pipeline's parts."""
    assert isinstance(pipeline.synopsis, PartitionedSynopsis)
    return pipeline.synopsis.parts
