"""Verifies a state folder: reads every file and checks that all belong together."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.errors import StateError
from penstock.store.answers import AnswerLog, found_files
from penstock.store.arrow_files import read_arrow_file
from penstock.store.buckets import read_bucket
from penstock.store.changes import read_changes
from penstock.store.checkpoints import check_checkpoint
from penstock.store.commits import Commit, found_commits, read_commit
from penstock.store.executor_state import ExecutorStateFolder
from penstock.store.files import RESTORE, damaged, read_record
from penstock.store.folder import FORMAT

DRAFT: Final = ".tmp"  # of a file that Spark was writing when its process ended; nothing reads it
WRITTEN_BY_SPARK: Final = ("checkpoint", "invalid", "joining", "keys", "rows", "taken", "waiting")


@dataclass(frozen=True, slots=True)
class Verified:
    """What reading a whole state folder found."""

    folder: Path
    streams: tuple[str, ...]
    files: int
    size: int  # bytes
    problems: tuple[StateError, ...] = field(default=())

    @property
    def sound(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.problems


def verify_state(folder: Path) -> Verified:
    """Read every file of a state folder that no engine uses, and check that they belong together."""
    if not (folder / "format").exists():
        raise StateError(
            f"{folder} is not a state folder: it has no file named format", hint="Name the folder of a state."
        )
    streams = sorted({path.name for part in ("commits", "answers") for path in _folders(folder / part)})
    problems = list(_problems(folder, streams))
    files = [path for path in folder.rglob("*") if path.is_file()]
    return Verified(folder, tuple(streams), len(files), sum(p.stat().st_size for p in files), tuple(problems))


@dataclass(frozen=True, slots=True)
class LastAnswers:
    """The last answers of a stream: their number, and the commit after which they were made; −1: there are none."""

    number: int = -1
    commit: int = -1


def check_together(folder: Path, stream: str, last: Commit | None, answers: LastAnswers, version: int) -> None:
    """Refuse a catalog, commits, answers, sinks' progress and a checkpoint of Spark's that do not belong together.

    ``last`` is the last commit, ``version`` the catalog's.
    """
    number = -1 if last is None else last.number
    if last is not None and last.catalog_version > version:
        raise _apart(
            stream,
            f"a commit was made with version {last.catalog_version} of the catalog, but its last version is {version}",
        )
    if answers.commit > number:
        raise _apart(stream, f"there are answers of commit {answers.commit}, but the last commit is {number}")
    expected = None if last is None else last.answered
    if expected is not None and answers.number < expected:
        raise _apart(stream, f"answers {expected} are missing")
    reached = max(number, answers.number)  # where nobody had an answer, sinks were told the number of the commit
    for path in _progress_of(folder, stream):
        delivered = read_record(path).get("delivered", -1)
        if isinstance(delivered, int) and delivered > reached:
            raise _apart(stream, f"{path} has reached answers {delivered}, but the last ones are {reached}")
    check_checkpoint(folder / "checkpoint" / stream, last, stream)


def check_format(folder: Path) -> None:
    """Check the marker; a folder of an older format must have been opened once."""
    found = read_record(folder / "format").get("format")
    if found != FORMAT:
        hint = "An engine that opens an older folder migrates it; a newer one needs the version that wrote it."
        raise StateError(f"the state folder {folder} has format {found}, not {FORMAT}", hint=hint)


def _problems(folder: Path, streams: Iterable[str]) -> Iterator[StateError]:
    """Find all that is wrong; nothing more is said of a folder of another format."""
    if (other := _problem_of(check_format, folder)) is not None:
        yield other
        return
    if (missing := _problem_of(_catalog_version, folder)) is not None:
        yield missing
    for stream in streams:
        found = [*_commit_problems(folder / "commits" / stream), *_answer_problems(folder / "answers" / stream)]
        found += _spread_problems(folder / "spread" / stream)
        found += _taken_problems(folder / "taken" / stream)
        yield from found
        if not found and missing is None and (apart := _problem_of(_check_stream, folder, stream)) is not None:
            yield apart
    yield from _spark_problems(folder)


def _commit_problems(folder: Path) -> Iterator[StateError]:
    """Read all commits of a stream and their partials."""
    if not folder.exists():
        return
    if (problem := _problem_of(found_commits, folder)) is not None:
        yield problem
        return
    for one in found_commits(folder)[1]:
        checks = [_problem_of(read_commit, folder / one.record)]
        if one.partials is not None:
            checks.append(_problem_of(read_arrow_file, folder / one.partials, one.sum))
        yield from (problem for problem in checks if problem is not None)


def _answer_problems(folder: Path) -> Iterator[StateError]:
    """Read all answers of a stream."""
    if not folder.exists():
        return
    if (problem := _problem_of(found_files, folder)) is not None:
        yield problem
        return
    for file in found_files(folder)[0]:
        found = (_problem_of(file.read, part) for part in file.parts)
        if (problem := next((one for one in found if one is not None), None)) is not None:
            yield problem


def _spread_problems(folder: Path) -> Iterator[StateError]:
    """Read all partials of a stream that the executors keep."""
    if not folder.exists():
        return
    if (problem := _problem_of(ExecutorStateFolder, folder)) is not None:
        yield problem
        return
    for file in (file for entry in ExecutorStateFolder(folder).entries for file in entry.files):
        found = (_problem_of(read_bucket, folder, file, stretch.bucket) for stretch in file.stretches)
        if (problem := next((one for one in found if one is not None), None)) is not None:
            yield problem


def _taken_problems(folder: Path) -> Iterator[StateError]:
    """Read what tells of the rows that a stream's continuous queries took, and who takes them."""
    for path in _files(folder):
        check = read_record if path.suffix == ".json" else _read_fragments
        if (problem := _problem_of(check, path)) is not None:
            yield problem
    whole = [path.name.split("-") for path in _folders(folder) if any(path.glob("*.parquet"))]
    for commit in (path for path in _files(folder) if path.stem.replace("-", "").isdigit()):
        first, last = commit.stem.split("-")[0], commit.stem.split("-")[-1]
        if not any(one[0] <= first and last <= one[-1] for one in whole):
            yield damaged(folder / commit.stem, "it does not exist, but its record does")


def _read_fragments(path: Path) -> object:
    """Read the fragments of a plan; what a crash has left of a file is no problem."""
    return read_arrow_file(path, None) if path.suffix in (".fragments", ".arrow") else None


def _catalog_version(folder: Path) -> int:
    """Read the catalog and return its version."""
    path = folder / "catalog.db"
    if not (path.exists() and path.stat().st_size) and any(_folders(folder / "commits")):
        raise damaged(path, "it does not exist, but commits do")
    return max((change["version"] for change in read_changes(path)), default=0)


def _check_stream(folder: Path, stream: str) -> None:
    """Check that the sound parts of a stream belong together."""
    commits, answers = folder / "commits" / stream, folder / "answers" / stream
    last = found_commits(commits)[2] if commits.exists() else None
    check_together(folder, stream, last, _last_answers(answers), _catalog_version(folder))


def last_answers(log: AnswerLog) -> LastAnswers:
    """Tell which answers of a log are the last ones."""
    number, commit = log.last(), log.last_commit()
    return LastAnswers(-1 if number is None else number, -1 if commit is None else commit)


def _last_answers(folder: Path) -> LastAnswers:
    """Read which answers of a stream are the last ones."""
    if not folder.exists():
        return LastAnswers()
    files, number, _ = found_files(folder)
    return LastAnswers(number, files[-1].span.commit if files else -1)


def _progress_of(folder: Path, stream: str) -> Iterator[Path]:
    """List the records of how far a stream's sinks came."""
    return (p for p in _files(folder / "sinks") if re.fullmatch(re.escape(stream) + r"-\d+\.json", p.name))


def _spark_problems(folder: Path) -> Iterator[StateError]:
    """Compare the files that Spark wrote with the checksums that it left beside them."""
    for part in WRITTEN_BY_SPARK:
        for sums in sorted((folder / part).rglob(".*.crc")):
            path = sums.with_name(sums.name[1:-4])
            if path.suffix == DRAFT or not path.exists():
                continue
            if (problem := _problem_of(_check_sums, path, sums)) is not None:
                yield problem


def _check_sums(path: Path, sums: Path) -> None:
    """Check a file against Hadoop's list of checksums: a mark, the stretch of each, and one of each stretch."""
    try:
        told, content = sums.read_bytes(), path.read_bytes()
    except OSError as error:
        raise damaged(path, error) from error
    step = int.from_bytes(told[4:8], "big")
    if told[:4] != b"crc\0" or not step:
        raise damaged(sums, "it is not a list of checksums")
    found = [zlib.crc32(content[start : start + step]).to_bytes(4, "big") for start in range(0, len(content), step)]
    if b"".join(found) != told[8:]:
        raise damaged(path, "its checksum does not match")


def _problem_of(check: Callable[..., object], *about: object) -> StateError | None:
    """Run a check and return what it found."""
    try:
        check(*about)
    except StateError as error:
        return error
    except OSError as error:
        return StateError(f"cannot read {error.filename}: {error.strerror}", hint="Fix its permissions.")
    return None


def _apart(stream: str, detail: str) -> StateError:
    """Word the error for files that are not of one time."""
    what = f'the parts of the state of stream "{stream}" do not belong together'
    return StateError(what, detail=detail, hint=RESTORE)


def _folders(folder: Path) -> Iterable[Path]:
    """List the folders in one that may not be there."""
    return (path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()


def _files(folder: Path) -> Iterable[Path]:
    """List the files in a folder that may not be there."""
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else ()
