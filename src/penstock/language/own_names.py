"""Checks the name of a new stream, table, query or function.

Streams are folders of the state and part of file names, and names are printed in plans and logs. So a name must not
lead to another folder, mean something in a pattern of file names, or look like another name.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from penstock.errors import CatalogError
from penstock.language.grammar.limits import MAX_OWN_NAME_BYTES

_QUOTES: Final = {'"': "a double quote", "`": "a backquote"}
_FORBIDDEN: Final = re.compile(r"""[/\\:*?"<>|\[\]{}%#$`]""")


def check_own_name(name: str, kind: str) -> None:
    """Refuse a name that could not be a file's, or that does not show what it is."""
    if not name.strip() or name != name.strip() or name.startswith("."):
        raise CatalogError(f'"{name}" cannot be the name of a {kind}', hint="Begin it with a letter.")
    if len(name.encode(errors="replace")) > MAX_OWN_NAME_BYTES:
        raise CatalogError(f"the name of a {kind} has more than {MAX_OWN_NAME_BYTES} bytes", detail=name)
    sign = _FORBIDDEN.search(name)
    if sign or not name.isprintable():
        shown = _QUOTES.get(sign[0], f'"{sign[0]}"') if sign else "a character that does not show"
        raise CatalogError(f'the name of {kind} "{name}" holds {shown}', hint="Use letters, digits, _ and -.")
    if not unicodedata.is_normalized("NFC", name):
        raise CatalogError(
            f'the name of {kind} "{name}" is not in the Unicode normal form NFC',
            hint="Write each accented letter as one character.",
        )
