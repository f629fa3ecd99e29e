"""The options after WITH come in; those that change what a query does go out, or an error says what is allowed.

An option that nothing honours yet is refused, never ignored: a query must not look more urgent than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from penstock.errors import InvalidWindow, LanguageError, Unsupported, WrongType, nearest
from penstock.language.duration import format_duration, parse_duration
from penstock.language.literals import is_plain_word, write_string

Value = str | int
Reader = Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class OptionClause:
    """One option as written: its name in lower case, and its value as text or a whole number."""

    name: str
    value: Value
    place: tuple[int, int] = field(default=(0, 1), compare=False)

    def __str__(self) -> str:
        """Print the option as the language writes it."""
        name = self.name if is_plain_word(self.name) else write_string(self.name)
        return f"{name} = {self.value if isinstance(self.value, int) else write_string(self.value)}"


@dataclass(frozen=True, slots=True)
class Option:
    """One option there is: its values, its default, and which of its values are honoured today."""

    name: str
    values: str
    default: str | None
    honoured: tuple[str, ...]
    meaning: str
    read: Reader = field(repr=False, compare=False)


def _positive(value: Value) -> Value:
    """Read a whole number above zero."""
    if isinstance(value, str) or value <= 0:
        raise ValueError
    return value


def _length(value: Value) -> Value:
    """Read a duration, and write it in one way."""
    try:
        length_us = parse_duration(str(value))
    except InvalidWindow as error:
        raise ValueError(error.what) from None
    if length_us == 0:
        raise ValueError
    return format_duration(length_us)


def _one_of(*words: str) -> Reader:
    """Read one of a few words."""

    def read(value: Value) -> Value:
        """Find the word, whatever its case."""
        if str(value).lower() not in words:
            raise ValueError
        return str(value).lower()

    return read


def _moment(value: Value) -> Value:
    """Read 'beginning' or a timestamp."""
    text = str(value).strip()
    if text.lower() == "beginning":
        return "beginning"
    return datetime.fromisoformat(text).isoformat(sep=" ")


_DURATION: Final = "a duration such as '5 s'"
OPTIONS: Final = (
    Option(
        "priority", "a whole number above 0", "1", (), "how urgent the query's answers are beside others'", _positive
    ),
    Option("deadline", _DURATION, None, (), "how soon after a window's end its answer should be there", _length),
    Option("lifetime", _DURATION, None, (), "how long the query runs before it is dropped", _length),
    Option(
        "emit",
        "'exact' or 'fresh'",
        "exact",
        ("exact",),
        "'exact' answers every window; 'fresh' skips what a later window supersedes",
        _one_of("exact", "fresh"),
    ),
    Option(
        "on_error",
        "'pause' or 'null'",
        "pause",
        ("pause",),
        "an expression that fails on a row pauses the query, or counts as NULL",
        _one_of("pause", "null"),
    ),
    Option(
        "late",
        "'count' or 'revise'",
        "count",
        ("count",),
        "rows that come after their window's answer are counted, or the answer is revised",
        _one_of("count", "revise"),
    ),
    Option("revise_for", _DURATION, None, (), "how long after its end a window's answer may be revised", _length),
    Option("from", "'beginning' or a timestamp", None, (), "from which time on stored rows are answered", _moment),
    Option("retain", _DURATION, None, (), "how long partials are kept for questions and new queries", _length),
    Option("retain_rows", _DURATION, None, (), "how long rows are kept for questions and new queries", _length),
    Option("keep", _DURATION, None, (), "how long answers are kept", _length),
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}


def check_options(clauses: Sequence[OptionClause], text: str) -> tuple[tuple[str, Value], ...]:
    """Return the options that are not the default, sorted; refuse what is unknown, wrong or not honoured."""
    kept: dict[str, Value] = {}
    for number, clause in enumerate(clauses):
        option = _find(clause, text)
        if clause.name in (other.name for other in clauses[:number]):
            raise LanguageError(f'option "{clause.name}" is there twice', text=text, place=clause.place)
        value = _read(option, clause, text)
        if str(value) not in option.honoured:
            raise _not_honoured(option, clause, text)
        if str(value) != option.default:
            kept[option.name] = value
    return tuple(sorted(kept.items()))


def _find(clause: OptionClause, text: str) -> Option:
    """Find an option by its name."""
    option = _BY_NAME.get(clause.name)
    if option is not None:
        return option
    hint = nearest(clause.name, _BY_NAME)
    detail = None if hint else "existing options: " + ", ".join(_BY_NAME)
    raise LanguageError(
        f'there is no option "{clause.name[:40]}"', text=text, place=clause.place, detail=detail, hint=hint
    )


def _read(option: Option, clause: OptionClause, text: str) -> Value:
    """Read an option's value, or say what is allowed."""
    try:
        return option.read(clause.value)
    except ValueError:
        shown = str(clause.value) if len(str(clause.value)) <= 40 else str(clause.value)[:37] + "..."
        what = f'option {option.name} takes {option.values}, found "{shown}"'
        raise WrongType(what, text=text, place=clause.place) from None


def _not_honoured(option: Option, clause: OptionClause, text: str) -> Unsupported:
    """Build the error for an option that nothing honours yet."""
    value = f" = '{clause.value}'" if option.honoured else ""
    hint = "Leave it out." if not option.honoured else f"Write {option.name} = '{option.honoured[0]}', or leave it out."
    what = f"option {option.name}{value} is not honoured yet"
    return Unsupported(what, text=text, place=clause.place, detail=option.meaning, hint=hint)
