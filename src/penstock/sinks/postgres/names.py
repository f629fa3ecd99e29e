"""Names tables and columns of Postgres as queries and their columns are named, as far as that can be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Final

LONGEST_NAME: Final = 63  # bytes, beyond which Postgres cuts a name off
_MARKED: Final = re.compile(r".*(-[0-9a-f]{16}|~\d+)", re.DOTALL)  # made by :func:`identifier` and for other columns


def identifier(name: str, taken: Collection[str] = ()) -> str:
    """Name a table or column as a query is, or as it names it; a name that cannot be is cut and has a number behind it.

    >>> identifier("Flow per symbol")
    'Flow per symbol'
    >>> identifier("x" * 70)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-6ffcf929be57e0a7'
    """
    told = name.encode(errors="surrogatepass")
    if 0 < len(told) <= LONGEST_NAME and "\0" not in name and name not in taken and not _MARKED.fullmatch(name):
        return name
    shown = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:40]
    return f"{shown or 'query'}-{hashlib.sha256(told).hexdigest()[:16]}"
