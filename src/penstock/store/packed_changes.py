"""Puts changes of the catalog together in one row once nothing but their numbers and names is left.

A row for every query that ever was takes 0.2 kB and more; packed, it takes a tenth. Nothing is lost: who reads the log
gets the same changes.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

Change = dict[str, Any]
PACKED: Final = "packed"  # the op of a row that holds several changes; its version is the last one's
LEAST: Final = 64  # changes that follow each other, to be worth a row
MOST: Final = 4_096  # of a row
FORGOTTEN: Final = "forgotten"  # in the body of a change of which only number and name are left
_GONE: Final = ("drop", "retire")  # tell no more than a name


def is_small(change: Change) -> bool:
    """Tell whether a change says no more than who came or went."""
    return change["kind"] == "query" and (bool(change.get(FORGOTTEN)) or change["op"] in _GONE)


def stretches(versions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """List the first and last of versions that follow each other, where they are enough for a row."""
    first = 0
    for place in range(1, len(versions) + 1):
        ends = place == len(versions) or versions[place] != versions[place - 1] + 1 or place - first == MOST
        if ends and place - first >= LEAST:
            yield versions[first], versions[place - 1]
        first = place if ends else first


def packed(changes: Sequence[Change]) -> Change:
    """Write changes that follow each other as one."""
    names = list(dict.fromkeys(name for change in changes for name in change))
    columns = {name: [change.get(name) for change in changes] for name in names}
    held = {name: [name in change for change in changes] for name in names}
    some = {name: which for name, which in held.items() if not all(which)}
    content = json.dumps({"columns": columns, "some": some}, separators=(",", ":")).encode()
    about = {"version": changes[-1]["version"], "at_us": changes[-1]["at_us"], "op": PACKED, "kind": "query"}
    return {**about, "name": "", "definition": None, "changes": base64.b64encode(zlib.compress(content, 9)).decode()}


def unpacked(change: Change) -> list[Change]:
    """Read the changes that one stands for: itself, unless it is packed."""
    if change["op"] != PACKED:
        return [change]
    content = json.loads(zlib.decompress(base64.b64decode(change["changes"])))
    columns, some = content["columns"], content["some"]
    return [
        {name: column[place] for name, column in columns.items() if name not in some or some[name][place]}
        for place in range(len(columns["version"]))
    ]
