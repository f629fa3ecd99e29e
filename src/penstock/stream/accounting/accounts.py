"""Lists every kind of what grows in a stream: a new one is a line here.

What is shared is divided evenly among those who share it (decision 0043), so the shares of all queries and what is held
for nobody add up to the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.stream.accounting import in_memory, on_disk
from penstock.stream.accounting.holding import Account, Balance, HeldIn

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner

ACCOUNTS: Final = (
    Account("partials", "memory", "of slices, from which windows are answered", in_memory.partials),
    Account("groups", "memory", "keys of the groups that partials are of", in_memory.groups),
    Account("windows", "memory", "final ones that are not answered yet", in_memory.windows),
    Account("said", "memory", "last answers, to tell changes and revisions", in_memory.said),
    Account("unsent", "memory", "answers that sinks have not taken", in_memory.unsent),
    Account("answers", "memory", "kept without a state folder", in_memory.logged),
    Account("joined", "memory", "rows that wait for those of another stream", in_memory.joined),
    Account("queued", "memory", "rows that wait for expensive functions", in_memory.queued),
    Account("takers", "memory", "who takes which rows", in_memory.takers),
    Account("figures", "memory", "of queries", in_memory.figures),
    Account("commits", "disk", "partials of batches", on_disk.commits),
    Account("answers", "disk", "the log of answers", on_disk.answers),
    Account("spread", "disk", "partials that the executors keep", on_disk.spread),
    Account("waiting", "disk", "rows that windows of rows wait for", on_disk.waiting),
    Account("joining", "disk", "rows that wait for those of another stream", on_disk.joining),
    Account("rows", "disk", "kept for questions and queries to come", on_disk.kept),
    Account("keys", "disk", "of rows, to tell duplicates", on_disk.keys),
    Account("queued", "disk", "rows that wait for expensive functions", on_disk.queued),
    Account("taken", "disk", "rows of queries without a window", on_disk.taken),
)


def balance_of(runner: StreamRunner, place: HeldIn) -> Balance:
    """Add up what a stream holds in a place; any thread may ask while the stream runs."""
    balance = Balance()
    for account in ACCOUNTS:
        if account.place == place:
            balance.add(account.kind, account.of(runner))
    return balance
