"""Unpickles users' Python code in Spark's workers, and says what it raised; travels by value as the workers do."""

from __future__ import annotations

from typing import Any

LONGEST = 200  # characters of an exception's text


def load_code(pickled: bytes, version: str) -> Any:
    """Unpickle code; raise if it was registered under another Python than this one."""
    import pickle
    import sys

    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if here != version:
        raise RuntimeError(f"it was registered under Python {version}, but this is {here}; register it again")
    return pickle.loads(pickled)


def what_it_raised(error: BaseException) -> str:
    """Say in one line what was raised, also if its text cannot be had."""
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    # Spark's messages are cut after their first sentence.
    return type(error).__name__ + (f": {shortened(text, LONGEST).replace('. ', '; ')}" if text else "")


def shortened(text: str, longest: int) -> str:
    """Cut a text."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
