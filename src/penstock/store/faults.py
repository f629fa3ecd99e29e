"""Names every durable write, so that tests can stop, tear or fail it.

Every durable write has a name of :data:`POINTS` or :data:`OUTER_POINTS` and reaches three moments: ``<name>.before``
(nothing is on disk), ``<name>.torn`` (half of it is) and ``<name>.after`` (all of it is, and nothing that follows).
Without a hook, as always outside of tests, reaching one costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

MOMENTS: Final = ("before", "torn", "after")

# In the order of a batch; "catalog" and "forgotten" are SQLite transactions, which have no middle.
POINTS: Final[tuple[str, ...]] = (
    "format",  # the marker of a state folder
    "migration",  # of an older state folder
    "catalog",  # a change of the catalog
    "forgotten",  # what nobody can ask for any more, taken out of the catalog; one transaction too
    "invalid",  # rows without a usable time, kept aside
    "keys",  # remembered keys of a stream without duplicates
    "rows",  # retained rows
    "waiting",  # rows that windows of rows wait for
    "joining",  # rows that joins of two streams wait with
    "taken",  # rows that continuous queries took
    "taken.plan",  # the plan that they are of
    "taken.fragments",  # who takes them
    "taken.record",
    "taken.outputs",  # what operators computed of queued rows that other queries still wait for
    "taken.together",  # records of commits whose rows were put together
    "commit",
    "answers",
    "sink.jsonl",
    "sink.parquet",  # torn: all drafts are written, one has its name
    "sink.parquet.columns",  # what a query's folder says of itself
    "sink.parquet.reach",  # which files are about to appear in folders of queries
    "sink.progress",
    "compaction.partials",
    "compaction.record",  # of the last of the commits whose partials were put together
    "compaction.answers",
    "compaction.list",  # the one write that makes either compaction hold; torn and after: old files still there
    "record",  # any other small record
    "backup",
)

# Of sinks that write to tables and addresses of others; tests/sinks/killed.py kills them at each.
OUTER_POINTS: Final[tuple[str, ...]] = (
    "sink.delta",  # a commit to a table; torn: it is there, others follow; after: all are
    "sink.delta.reach",  # up to which batch tables are about to be written
    "sink.postgres",  # a transaction; torn: all of it is sent and not committed
    "sink.webhook",  # before a request; torn: it was answered, others follow; after: all were
)

hook: Callable[[str], None] | None = None  # set by tests


def reached(point: str) -> None:
    """Tell a test, if one listens, that a moment has come; what it raises is what happens there."""
    if hook is not None:
        hook(point)


def tear(point: str, file: BinaryIO, start: int = 0) -> None:
    """Let a test see a file with half of what was written since ``start``, then with all of it again.

    The file must be open for reading too.
    """
    if hook is None:
        return
    file.flush()
    end = file.seek(0, 2)
    half = start + (end - start) // 2
    file.seek(half)
    rest = file.read()
    file.truncate(half)
    file.flush()
    hook(f"{point}.torn")
    file.seek(half)
    file.write(rest)
