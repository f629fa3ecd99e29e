"""Migrates a state folder of an older format; killed in the middle, it starts over.

Format 1 kept the catalog in a log, partials without checksums and with fewer counts, and answers without an index.
Format 2 numbered answers by their commits, and did not tell which windows they cover, format 3 had the record of a
commit in a file of its own: nothing of these is rewritten.
Every step leaves a file as it was or as it is to be, and does nothing to one that it finds done.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.errors import StateError
from penstock.share.partial_schema import CORRECTED_COUNT, LATE_COUNT, TOUCHED_COUNT
from penstock.store.answer_files import Span, read_format_1, read_index, write_answers
from penstock.store.arrow_files import arrow_file, read_arrow_file
from penstock.store.changes import migrate_journal
from penstock.store.commits import Commit, read_commit
from penstock.store.files import checksum, names_in, write_record, write_whole
from penstock.store.manifest import LIST, KeptCommits, Manifest, write_list

POINT: Final = "migration"


def migrate(folder: Path, found: int) -> None:
    """Turn the parts of a folder of a format into their new form; its marker is the caller's, and comes last."""
    if found > 1:
        return
    migrate_journal(folder)
    for part, migrate_stream in (("commits", _migrate_commits), ("answers", _migrate_answers)):
        if (folder / part).exists():
            for stream in names_in(folder / part):
                migrate_stream(folder / part / stream)


def _migrate_commits(folder: Path) -> None:
    """Add the checksums of partials, and the list of commits that are kept."""
    if (folder / LIST).exists():
        return
    numbers = [int(name[:12]) for name in names_in(folder) if name.endswith(".json")]
    commits = [_with_sum(folder, number) for number in numbers]
    if commits:
        kept = [
            KeptCommits(c.number, c.number, 1, c.highest, c.partials_sum, None) for c in commits[:-1] if c.partials_sum
        ]
        write_list(folder, Manifest(commits[-1].number - 1, tuple(kept)), POINT)


def _with_sum(folder: Path, number: int) -> Commit:
    """Add the checksum of a commit's partials to its record, if it has any."""
    path, partials = folder / f"{number:012d}.json", folder / f"{number:012d}.arrow"
    commit, _ = read_commit(path)
    if commit.partials_sum is None and partials.exists():
        content = arrow_file(_counted(read_arrow_file(partials, None)))
        write_whole(partials, lambda file: file.write(content), POINT)
        commit = replace(commit, partials_sum=checksum(content))
        write_record(path, commit.to_record(), POINT)
    return commit


def _counted(partials: pa.Table) -> pa.Table:
    """Add the counts of rows corrected to partials that count late rows in a column of their own."""
    if LATE_COUNT not in partials.column_names or CORRECTED_COUNT in partials.column_names:
        return partials
    nothing = pa.array([0] * partials.num_rows, pa.int64())
    return partials.append_column(CORRECTED_COUNT, nothing).append_column(TOUCHED_COUNT, nothing)


def _migrate_answers(folder: Path) -> None:
    """Give every file of answers its index."""
    after = -1
    for name in names_in(folder):
        if not name.endswith(".answers"):
            continue
        number = int(name[:12])
        try:
            read_index(folder / name)
        except StateError:
            span = Span(number, number, after, commit=number, older=True)
            write_answers(folder, span, read_format_1(folder / name), POINT)
        after = number
