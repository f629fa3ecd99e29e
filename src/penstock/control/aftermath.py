"""Finds out what came of a request whose engine ended while it was at work on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.catalog import Catalog
from penstock.errors import PenstockError
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query


def what_came_of(folder: Path, verb: str, body: dict[str, Any]) -> tuple[str, str]:
    """Say how things stand now, and what to do: changes of queries are in the catalog before they are answered."""
    match verb:
        case "create" | "alter" | "drop" | "pause" | "resume":
            from penstock.control.reading import read_catalog  # it needs the catalog alone, and takes a while to import

            try:
                return _of_query(read_catalog(folder), verb, str(body.get("query")), str(body.get("text")))
            except PenstockError as error:
                return f"the catalog cannot be read: {error.what}", "See penstock state verify."
        case "backfill":
            return (
                "a backfill that it had begun goes on when an engine runs again",
                "penstock status shows how far it is.",
            )
        case "backup":
            return f"the copy in {body.get('folder')} is not whole", "Delete it and try again."
        case "policy":
            return "a policy that was set holds while its engine runs", "Set it again when an engine runs."
        case "shed":
            return "a share that was set holds if penstock status shows it", "Try again."
        case "execute":
            return "a question changed nothing; ALTER QUERY holds if penstock queries shows it", "Try again."
    return "nothing was changed", "Ask again when an engine runs."


def _of_query(catalog: Catalog, verb: str, name: str, text: str) -> tuple[str, str]:
    """Say how a query stands in the catalog."""
    there, again = catalog.has("query", name), "Try again: nothing was changed."
    if verb == "drop":
        return (f'query "{name}" is there', again) if there else (f'it was carried out: query "{name}" is gone', _DONE)
    if not there:
        return f'query "{name}" is not there', again
    if verb in ("pause", "resume"):
        paused = catalog.user_paused(name)
        stands = f'query "{name}" is {"paused" if paused else "not paused"}'
        return (f"it was carried out: {stands}", _DONE) if paused == (verb == "pause") else (stands, again)
    if _means(catalog, name, text):
        return f'query "{name}" is there as it was asked for', _DONE
    return f'query "{name}" is there with another text', again


_DONE = "There is nothing left to do."


def _means(catalog: Catalog, name: str, text: str) -> bool:
    """Tell whether a query is there with a text."""
    try:
        return bind(parse_query(text), catalog, name, catalog.functions()).text == catalog.query(name).query.text
    except PenstockError:
        return False
