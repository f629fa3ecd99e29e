"""A backup is a state folder that an engine can go on from, verified when it is made and before it is restored."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.store.copying import SEAL, copy_state, restore_state
from penstock.store.files import read_record, write_record
from penstock.store.folder import StateFolder
from penstock.store.verifying import verify_state
from tests.shell import Penstock, penstock
from tests.store.dying import Died, dying_at
from tests.store.sound import STREAM, contents, files_of, made

__all__ = ["penstock"]  # a fixture


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("sound") / "state")


@pytest.fixture
def broken(sound: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder in which a file of answers is cut short."""
    folder = tmp_path / "broken"
    shutil.copytree(sound, folder)
    file = max((folder / "answers" / STREAM).glob("*.answers"))
    file.write_bytes(file.read_bytes()[:100])
    return folder


def test_what_was_backed_up_and_restored_holds_the_same(sound: Path, tmp_path: Path) -> None:
    copied = copy_state(sound, tmp_path / "backup")
    assert copied.files == len(files_of(sound)) - 1  # the lock
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    restored, aside = restore_state(tmp_path / "backup", tmp_path / "state")
    assert aside is None
    assert restored.files == copied.files
    assert verify_state(tmp_path / "state").sound
    assert not (tmp_path / "state" / SEAL).exists()
    assert contents(tmp_path / "state") == contents(sound)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["backup", "state"]  # no drafts


def test_a_backup_does_not_write_over_anything(sound: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StateError, match="exists and is not empty"):
        copy_state(sound, tmp_path)
    with pytest.raises(StateError, match="exists and is not empty"):
        copy_state(sound, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_damaged_folder_is_not_backed_up(broken: Path, tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"the copy is damaged: state file .*answers is missing or damaged"):
        copy_state(broken, tmp_path / "backup")
    assert [p.name for p in tmp_path.iterdir()] == ["broken"]


def test_a_backup_that_was_changed_is_not_restored(sound: Path, tmp_path: Path) -> None:
    copy_state(sound, tmp_path / "backup")
    source = tmp_path / "backup" / "checkpoint" / STREAM / "sources" / "0"
    newest = max(source.iterdir())
    newest.write_text(newest.read_text() + "x")
    with pytest.raises(StateError, match="it is not as it was copied"):
        restore_state(tmp_path / "backup", tmp_path / "state")
    newest.unlink()
    with pytest.raises(StateError, match="No such file"):
        restore_state(tmp_path / "backup", tmp_path / "state")
    with pytest.raises(StateError, match=r"is not a backup: it has no backup.json"):
        restore_state(sound, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_what_is_replaced_is_moved_aside(sound: Path, broken: Path, tmp_path: Path) -> None:
    copy_state(sound, tmp_path / "backup")
    with pytest.raises(StateError, match="exists and is not empty"):
        restore_state(tmp_path / "backup", broken)
    before = files_of(broken)
    _, aside = restore_state(tmp_path / "backup", broken, force=True)
    assert aside is not None
    assert files_of(aside) == before
    assert contents(broken) == contents(sound)


def test_a_backup_that_is_killed_leaves_no_half(sound: Path, tmp_path: Path) -> None:
    for nth in range(10):
        target = tmp_path / f"backup-{nth}"
        with dying_at(nth, "backup") as reached, contextlib.suppress(Died):
            copy_state(sound, target)
        assert not target.exists() or verify_state(target).sound
        if len(reached) <= nth:
            break
    assert reached == ["backup.before", "backup.before", "backup.torn", "backup.after", "backup.after"]


# -- the command -------------------------------------------------------------------------------------------------


def test_the_command_verifies(penstock: Penstock, sound: Path, broken: Path, tmp_path: Path) -> None:
    done = penstock("state", "verify", "--state", sound)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(" MB, sound\n")
    done = penstock("state", "verify", "--state", broken)
    assert done.code == 4
    assert "answers is missing or damaged" in done.out
    assert "hint: Run `penstock state verify`, then restore" in done.out
    found = json.loads(penstock("state", "verify", "--state", broken, "--json").out)
    assert (found["sound"], len(found["problems"]), found["streams"]) == (False, 1, [STREAM])
    done = penstock("state", "verify", "--state", tmp_path / "nothing")
    assert done.code == 4
    assert "does not exist" in done.err


def test_the_command_backs_up_and_restores(penstock: Penstock, sound: Path, tmp_path: Path) -> None:
    done = penstock("state", "backup", tmp_path / "backup", "--state", sound)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"copied {sound} to {tmp_path / 'backup'} while no engine ran: ")
    assert penstock("state", "backup", tmp_path / "backup", "--state", sound).code == 4
    done = penstock("state", "restore", tmp_path / "backup", tmp_path / "state", "--json")
    assert json.loads(done.out)["moved"] is None
    done = penstock("state", "restore", tmp_path / "backup", tmp_path / "state")
    assert (done.code, "--force" in done.err) == (4, True)
    done = penstock("state", "restore", tmp_path / "backup", tmp_path / "state", "--force")
    assert "what was there is in" in done.out
    assert contents(tmp_path / "state") == contents(sound)


def test_a_folder_in_use_is_left_alone(penstock: Penstock, sound: Path, tmp_path: Path) -> None:
    copy_state(sound, tmp_path / "backup")
    folder = tmp_path / "state"
    shutil.copytree(sound, folder)
    state = StateFolder(folder)
    done = penstock("state", "verify", "--state", folder)
    assert (done.code, "uses the state folder" in done.err) == (4, True)
    done = penstock("state", "restore", tmp_path / "backup", folder, "--force")
    assert (done.code, "uses the state folder" in done.err) == (4, True)
    state.release()
    assert penstock("state", "verify", "--state", folder).code == 0


def test_a_folder_of_another_format_is_not_verified(penstock: Penstock, sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    shutil.copytree(sound, folder)
    write_record(folder / "format", {**read_record(folder / "format"), "format": 7})
    done = penstock("state", "verify", "--state", folder)
    assert (done.code, "has format 7" in done.out) == (4, True)
