"""Writes the bodies of requests: answers of one query as JSON, or what a receiver such as Slack wants instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from penstock.printable import json_text
from penstock.sinks.json_lines import json_lines
from penstock.sinks.row_values import plain_rows
from penstock.sinks.terminal import line_of

_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_ROWS: Final = "{rows}"  # a text that is nothing else becomes the list of rows
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class PostedAnswers:
    """Answers of one query that go in one request."""

    stream: str
    number: int
    query: str
    rows: pa.Table

    @cached_property
    def lines(self) -> bytes:
        """Return the rows as lines of JSON."""
        return bytes(json_lines(self.rows))

    @property
    def json(self) -> str:
        """Return the rows as a list of JSON."""
        return f"[{', '.join(self.lines.decode().rstrip().split(chr(10)))}]"

    @property
    def text(self) -> str:
        """Return the rows as lines for people, without the query's name."""
        lines = (line_of({**row, "query_name": ""}).strip() for row in plain_rows(self.rows))
        return "\n".join(lines)

    def halves(self) -> Iterator[PostedAnswers]:
        """Part the answers in two."""
        middle = self.rows.num_rows // 2
        for rows in (self.rows.slice(0, middle), self.rows.slice(middle)):
            yield PostedAnswers(self.stream, self.number, self.query, rows)


def plain_body(answers: PostedAnswers, key: str) -> bytes:
    """Write answers as they are sent where nothing else is asked for."""
    about = {"key": key, "stream": answers.stream, "query": answers.query, "number": answers.number}
    return f'{json_text(about)[:-1]}, "rows": {answers.json}}}'.encode()


PLACES: Final = ("query", "stream", "key", "count", "rows", "text", "html")  # what can be put into a body


@dataclass(frozen=True, slots=True)
class BodyTemplate:
    """JSON whose texts have places such as ``{query}``, where what is to be said is put in."""

    content: Any

    def fixed(self) -> tuple[str, ...]:
        """List the texts that have no places: keys and passwords are among them."""
        return tuple(text for text in _texts(self.content) if not _PLACE.search(text))

    def write(self, answers: PostedAnswers, key: str) -> bytes:
        """Fill in the places; whatever stands in answers stays inside of its text."""
        values: dict[str, str] = {
            "query": answers.query,
            "stream": answers.stream,
            "key": key,
            "count": str(answers.rows.num_rows),
        }
        used = {match for text in _texts(self.content) for match in _PLACE.findall(text)}
        if used & {"text", "html"}:
            values |= {"text": answers.text, "html": answers.text.translate(_HTML)}
        if "rows" in used:
            values["rows"] = answers.json
        return json_text(_filled(self.content, values)).encode()


def template_of(text: str) -> BodyTemplate:
    """Read a template; a ValueError says what is wrong with it."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"must be JSON: {error}") from None
    for found in _texts(content):
        for name in _PLACE.findall(found):
            if name not in PLACES:
                known = ", ".join(f"{{{place}}}" for place in PLACES)
                raise ValueError(f"has no place {{{name}}}; places: {known}")
    return BodyTemplate(content)


def _texts(content: Any) -> Iterator[str]:
    """List the texts in JSON."""
    match content:
        case str():
            yield content
        case list():
            for one in content:
                yield from _texts(one)
        case dict():
            for one in content.values():
                yield from _texts(one)


def _filled(content: Any, values: Mapping[str, str]) -> Any:
    """Put values into the texts of JSON."""
    match content:
        case str() if content == _ROWS:
            return json.loads(values["rows"])
        case str():
            return _PLACE.sub(lambda place: values[place[1]], content)
        case list():
            return [_filled(one, values) for one in content]
        case dict():
            return {name: _filled(one, values) for name, one in content.items()}
        case _:
            return content
