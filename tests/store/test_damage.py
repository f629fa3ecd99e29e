"""Whatever happens to a file, a state folder gives the same as before or says which file it is and what to do."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.store.answers import DiskAnswerLog
from penstock.store.commits import DiskCommitLog
from penstock.store.verifying import verify_state
from tests.store.sound import LAST, STREAM, contents, files_of, made, partials_in

# Sinks' answers are written again from the log when nothing tells how far they came; a lock is no content.
# What the last commit was due to answer is answered again.
HARMLESS = ("lock", f"sinks/{STREAM}-0.json", f"answers/{STREAM}/{LAST:012d}.answers")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "state")


def flip(path: Path, seed: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[seed.randrange(len(content))] ^= 1 << seed.randrange(8)
    path.write_bytes(content)


def cut(path: Path, seed: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: seed.randrange(max(1, len(content)))])


def delete(path: Path, seed: random.Random) -> None:
    path.unlink()


def outcome(folder: Path, read: Callable[[Path], object]) -> object:
    """Read a folder; an error must name a file and say what to do."""
    try:
        return read(folder)
    except StateError as error:
        return error


@pytest.mark.parametrize("harm", [flip, cut, delete])
def test_no_damage_is_taken_for_an_answer(
    harm: Callable[[Path, random.Random], None], sound: Path, tmp_path: Path
) -> None:
    seed, expected, refused = random.Random(4), contents(sound), 0
    for name in files_of(sound):
        folder = tmp_path / "state"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        harm(folder / name, seed)
        verified = outcome(folder, verify_state)
        found = outcome(folder, contents)
        if isinstance(found, StateError):
            refused += 1
            assert found.hint, name
            assert isinstance(verified, StateError) or not verified.sound, name  # type: ignore[attr-defined]
        elif name not in HARMLESS:
            assert found == expected, name
    assert refused > 20


def test_a_sound_folder_is_verified_and_not_changed(sound: Path) -> None:
    before = {name: (sound / name).read_bytes() for name in files_of(sound)}
    found = verify_state(sound)
    assert found.sound
    assert found.streams == (STREAM,)
    assert found.files == len(before)
    assert {name: (sound / name).read_bytes() for name in files_of(sound)} == before


def test_the_folder_has_files_that_were_put_together(sound: Path) -> None:
    names = files_of(sound)
    assert [n for n in names if n.startswith("commits/") and "-" in n]
    assert [n for n in names if n.startswith("answers/") and "-" in n]
    assert len(contents(sound)[4]) == LAST + 1


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("commits", "there are answers of commit"),
        ("answers", "answers .* are missing"),
        ("checkpoint", "there is no checkpoint at .*, but batches up to 44 were read"),
        ("catalog.db", "it does not exist, but commits do"),
        ("format", "it does not exist, but other files of the state do"),
    ],
)
def test_a_part_that_is_gone_is_missed(gone: str, words: str, sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "state")
    path = tmp_path / "state" / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StateError) as raised:
        contents(tmp_path / "state")
    assert raised.match("do not belong together|missing or damaged")
    assert re.search(words, f"{raised.value.what} {raised.value.detail}")


def test_an_empty_catalog_is_no_catalog(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "state")
    (tmp_path / "state" / "catalog.db").write_bytes(b"")  # which SQLite takes for a new database
    with pytest.raises(StateError, match=r"catalog.db is missing or damaged"):
        contents(tmp_path / "state")


def test_a_file_of_another_time_in_its_place_is_noticed(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "state")
    answers = tmp_path / "state" / "answers" / STREAM
    alone = [n for n in sorted(p.name for p in answers.iterdir()) if n[12:] == ".answers"]
    shutil.copy(answers / alone[0], answers / alone[1])
    with pytest.raises(StateError, match="another file's content"):
        DiskAnswerLog(answers)
    commits = tmp_path / "state" / "commits" / STREAM
    files = [path for path in partials_in(commits) if path.name[12:] == ".arrow"]
    before = files[1].read_bytes()
    shutil.copy(files[0], files[1])  # of format 1, whose records are files of their own
    with pytest.raises(StateError, match="checksum"):
        list(DiskCommitLog(commits).replay())
    files[1].write_bytes(before)
    shutil.copy(files[-2], files[-1])
    with pytest.raises(StateError, match="another commit's content"):
        DiskCommitLog(commits)


def test_what_spark_was_writing_when_it_was_killed_is_no_damage(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "state")
    commits = next((tmp_path / "state" / "checkpoint").glob("*/commits"))
    (commits / ".21.2fe96451.tmp").write_bytes(b"v1\n{")
    (commits / "..21.2fe96451.tmp.crc").write_bytes(b"")
    assert not verify_state(tmp_path / "state").problems
