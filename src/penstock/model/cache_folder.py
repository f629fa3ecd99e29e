"""Names the folder in which Penstock keeps what it can make again: machine code, and Java's loaded classes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's folder for such files, or one for files that do not last where that cannot be written."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = (named if named.is_absolute() else Path.home() / ".cache") / "penstock"  # as its specification has it
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        home = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    return home
