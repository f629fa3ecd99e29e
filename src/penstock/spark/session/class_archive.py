"""Lets Spark's JVM start faster: the classes that it loads are kept in an archive, once for each Java and Spark.

Reading and verifying some ten thousand classes takes most of the time until Spark's first answer. Java can write the
classes that a process has loaded to a file as it ends, and later processes map that file (class data sharing). Java
checks that the archive fits, and loads classes as ever if it does not; so an archive never changes what a program does.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from penstock.model.cache_folder import cache_folder
from penstock.model.switches import is_off

SWITCH: Final = "PENSTOCK_CLASS_ARCHIVE"  # an environment variable: `off` lets Java neither read nor write archives
_COMPLETE: Final = bytes.fromhex("a8ab0bf0")  # how an archive begins; Java writes it last
_UNUSED_S: Final = 30 * 86_400  # after which an archive is removed, as nobody has its Java or Spark any more
_TORN_S: Final = 600  # after which a file that is not complete never will be
_SILENT: Final = "-Xlog:disable"  # Java names every class that it cannot archive


def archive_options(java: Path, given: str) -> str:
    """Write the JVM's options for reading an archive, or for writing one as it ends; ``given`` are a user's own."""
    if is_off(SWITCH) or "Archive" in given:
        return ""
    try:
        return _options(cache_folder() / "classes", _key(java))
    except OSError:
        return ""  # nothing can be kept here


def _options(folder: Path, key: str) -> str:
    """Take the archive of a Java and a Spark if there is one; otherwise let one be made."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{key}.jsa"
    _adopt(folder, archive)
    if any(sign in str(folder) for sign in ' "\\'):
        return ""  # options are separated by spaces
    if archive.exists():
        os.utime(archive)
        return f"-XX:SharedArchiveFile={archive} -Xshare:auto {_SILENT}"
    return f"-XX:ArchiveClassesAtExit={folder / f'{key}.{os.getpid()}.part'} {_SILENT}"


def _key(java: Path) -> str:
    """Tell apart what an archive depends on: which Java, which Spark, and where they are."""
    resolved, spark = java.resolve(), Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent)).resolve()
    stat = resolved.stat()
    told = f"{resolved} {stat.st_size} {stat.st_mtime_ns} {spark} {pyspark.__version__}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _adopt(folder: Path, archive: Path) -> None:
    """Give a name to an archive that some process has finished, and remove what nobody will use."""
    now = time.time()
    for part in sorted(folder.glob("*.part")):
        with suppress(OSError):  # another process may be doing the same
            complete, mine = _is_complete(part), part.name.startswith(f"{archive.stem}.")
            if complete and mine and not archive.exists():
                part.rename(archive)
            elif (complete and mine) or now - part.stat().st_mtime > _TORN_S:
                part.unlink()
    for old in folder.glob("*.jsa"):
        with suppress(OSError):
            if now - old.stat().st_mtime > _UNUSED_S:
                old.unlink()


def _is_complete(part: Path) -> bool:
    """Tell whether Java has finished an archive."""
    with part.open("rb") as file:
        return file.read(len(_COMPLETE)) == _COMPLETE
