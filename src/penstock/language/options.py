"""Checks the options that a query has after WITH, and reads their values.

An option that nothing honours yet is refused, never ignored: a query must not look more urgent than it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from penstock.errors import InvalidWindow, LanguageError, Unsupported, WrongType, nearest
from penstock.language.duration import format_duration, parse_duration
from penstock.language.grammar.limits import LONGEST_WINDOW_US
from penstock.language.grammar.literals import is_plain_word, write_string
from penstock.model.query import Query

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
        raise ValueError("it must be longer than zero")
    if length_us > LONGEST_WINDOW_US:
        raise ValueError("it must be at most 100 years")
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
    """Read 'beginning' or a timestamp, and write equal instants in one way: in UTC, which it is unless it says so."""
    text = _TYPED.sub(r"\2", str(value).strip())
    if text.lower() == "beginning":
        return "beginning"
    try:
        read = datetime.fromisoformat(text)
        return read.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ") if read.tzinfo else read.isoformat(sep=" ")
    except OverflowError:
        raise ValueError("the years are 1 to 9999") from None


_TYPED: Final = re.compile(r"\Atimestamp\s+(['\"])(.*)\1\Z", re.IGNORECASE | re.DOTALL)
_DURATION: Final = "a duration such as '5 s'"
URGENCY: Final = frozenset({"priority", "deadline"})  # options that change no answer, only what comes first
ALL: Final = ("all",)  # values are honoured
_LISTED: Final = (
    Option(
        "priority", "a whole number above 0", "1", ALL, "how urgent the query's answers are beside others'", _positive
    ),
    Option(
        "deadline",
        _DURATION,
        None,
        ALL,
        "how soon its answer should be there once a window is final; its slide, if not said",
        _length,
    ),
    Option("lifetime", _DURATION, None, ALL, "how long after its creation the query is dropped by itself", _length),
    Option(
        "emit",
        "'exact', 'change' or 'fresh'",
        "exact",
        ALL,
        "'exact' answers every window; 'change' emits only answers that differ from the last one of their group; "
        "'fresh' skips what a later window supersedes",
        _one_of("exact", "change", "fresh"),
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
        ALL,
        "rows that come after their window's answer are counted, or the answer is revised",
        _one_of("count", "revise"),
    ),
    Option(
        "revise_for",
        _DURATION,
        None,
        ALL,
        "how long after its end a window's answer may be revised; with `late = 'revise'`",
        _length,
    ),
    Option(
        "from",
        "'beginning' or a timestamp",
        None,
        ALL,
        "the time from which the source's history is answered too; a timestamp is UTC unless it says otherwise",
        _moment,
    ),
    Option(
        "changed_files",
        "'refuse' or 'accept'",
        "refuse",
        ALL,
        "source files that were written again since they were read, where `from` reads them: refused, or taken as they "
        "are now",
        _one_of("refuse", "accept"),
    ),
    Option(
        "retain",
        _DURATION,
        None,
        ALL,
        "how long partials are kept, finely cut, for questions and new queries",
        _length,
    ),
    Option("retain_rows", _DURATION, None, ALL, "how long rows are kept for questions and new queries", _length),
    Option(
        "keep",
        _DURATION,
        None,
        ALL,
        "how long answers are kept; those without a window for '1 h', if not said",
        _length,
    ),
    Option(
        "preemptible",
        "true or false",
        "false",
        ALL,
        "whether the query may be paused while the engine is at the cap of its memory",
        _one_of("true", "false"),
    ),
    Option(
        "shed",
        "'none' or 'sample'",
        "none",
        ALL,
        "'sample' lets the query answer from a sample of the rows where too much comes, with a bound of the error",
        _one_of("none", "sample"),
    ),
    Option(
        "explode",
        "true or false",
        "false",
        ALL,
        "of a query without a window: sinks get a row for this query alone, or one for all queries that take it",
        _one_of("true", "false"),
    ),
)
# queries without a window refuse them: they answer each row once, and have no partials
NOT_FOR_EACH_ROW: Final = ("emit", "on_error", "revise_for", "changed_files", "retain", "preemptible", "shed")
KEPT_US: Final = 3_600_000_000  # how long rows of a query without a window are kept, if it does not say
# windows of rows refuse them
NOT_FOR_ROWS: Final = (
    "late",
    "revise_for",
    "from",
    "changed_files",
    "retain",
    "retain_rows",
    "keep",
    "preemptible",
    "shed",
)
# sessions refuse them: they are answered once, when they are final, from the rows to come
NOT_FOR_SESSIONS: Final = ("emit", "late", "revise_for", "from", "changed_files", "retain", "preemptible", "shed")
SHEDS: Final = ("shed", "sample")  # among the options of a query that answers from a sample where too much comes
OPTIONS: Final = {option.name: option for option in _LISTED}


def check_options(clauses: Sequence[OptionClause], text: str) -> tuple[tuple[str, Value], ...]:
    """Return the options that are not the default, sorted; refuse what is unknown, wrong or not honoured."""
    kept: dict[str, Value] = {}
    for number, clause in enumerate(clauses):
        option = _find(clause, text)
        if clause.name in (other.name for other in clauses[:number]):
            raise LanguageError(f'option "{clause.name}" is given twice', text=text, place=clause.place)
        value = _read(option, clause, text)
        if option.honoured != ALL and str(value) not in option.honoured:
            raise _not_honoured(option, clause, text)
        if str(value) != option.default:
            kept[option.name] = value
    _check_together(kept, clauses, text)
    return tuple(sorted(kept.items()))


def refuse_options(clauses: Sequence[OptionClause], text: str) -> None:
    """Refuse options where none has a meaning: in a query that is asked once."""
    for clause in clauses:
        what = f"option {clause.name[:40]} has no meaning in a one-time query"
        raise Unsupported(what, text=text, place=clause.place, hint="Leave WITH (…) out.")


def _check_together(kept: Mapping[str, Value], clauses: Sequence[OptionClause], text: str) -> None:
    """Refuse one of two options that need each other."""
    if "changed_files" in kept and "from" not in kept:
        place = next(clause.place for clause in clauses if clause.name == "changed_files")
        what, hint = "option changed_files needs from", "Add from = 'beginning', or leave it out."
        raise LanguageError(what, text=text, place=place, hint=hint)
    revised, length = kept.get("late") == "revise", kept.get("revise_for")
    if revised and kept.get("emit") == "fresh":  # which of its windows are answered depends on the load
        place = next(clause.place for clause in clauses if clause.name == "emit")
        what = "option emit = 'fresh' beside option late is not available"
        raise Unsupported(what, text=text, place=place, hint="Leave out emit = 'fresh', or late.")
    for other in ("late", "keep") if kept.get("emit") == "change" else ():
        if other in kept:  # what was said last would be another answer, or not be known any more
            place = next(clause.place for clause in clauses if clause.name == "emit")
            what = f"option emit = 'change' beside option {other} is not available"
            raise Unsupported(what, text=text, place=place, hint=f"Leave out emit = 'change', or {other}.")
    for other in ("late", "retain") if kept.get("preemptible") == "true" else ():
        if other in kept:  # what is to be there for revisions and questions must not go
            place = next(clause.place for clause in clauses if clause.name == "preemptible")
            what = f"option preemptible beside option {other} is not available"
            raise Unsupported(what, text=text, place=place, hint=f"Leave out preemptible, or {other}.")
    if revised == (length is not None):
        return
    alone = "late" if revised else "revise_for"
    what, hint = (
        ("option late = 'revise' needs revise_for", "Add revise_for = '5 min', or as long as late rows may come.")
        if revised
        else ("option revise_for needs late = 'revise'", "Add late = 'revise', or leave it out.")
    )
    place = next(clause.place for clause in clauses if clause.name == alone)
    raise LanguageError(what, text=text, place=place, hint=hint)


def option_us(query: Query, name: str) -> int | None:
    """Return the length that an option of a query says, None if the query does not have it."""
    value = dict(query.options).get(name)
    return None if value is None else parse_duration(str(value))


def since_of(query: Query) -> int | Literal["beginning"] | None:
    """Return the time from which a query asks for history, in microseconds since 1970; None if it does not ask."""
    value = dict(query.options).get("from")
    if value is None:
        return None
    return "beginning" if value == "beginning" else moment_us(str(value))


def moment_us(text: str) -> int:
    """Return a timestamp as microseconds since 1970; raise ValueError if it is none."""
    return (datetime.fromisoformat(str(_moment(text))) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def accepts_changed_files(query: Query) -> bool:
    """Tell whether a query takes files of the past as they are now, though they were read as something else."""
    return ("changed_files", "accept") in query.options


def keep_us(query: Query) -> int:
    """Return how long a query's answers are kept; 0: for ever."""
    said = option_us(query, "keep")
    return said if said is not None else KEPT_US if query.is_continuous else 0


def is_preemptible(query: Query) -> bool:
    """Tell whether a query may be paused for memory."""
    return ("preemptible", "true") in query.options


def is_exploded(query: Query) -> bool:
    """Tell whether sinks get rows of a continuous query for it alone."""
    return ("explode", "true") in query.options


def priority_of(query: Query) -> int:
    """Return how urgent a query's answers are beside others': 1 unless it says otherwise."""
    return int(dict(query.options).get("priority", 1))


def urgency_words(query: Query) -> str:
    """Word how urgent a query's answers are, where it says so: its priority, its deadline, and whether it may skip."""
    told = dict(query.options)
    words = [f"{name} {told[name]}" for name in sorted(URGENCY, reverse=True) if name in told]
    return ", ".join([*words, *(["fresh"] if is_fresh(query) else [])])


def says_changes(query: Query) -> bool:
    """Tell whether a query says only answers that differ from the last one of their group."""
    return ("emit", "change") in query.options


def is_fresh(query: Query) -> bool:
    """Tell whether a query wants the freshest answer only: a window that a later one supersedes is skipped."""
    return ("emit", "fresh") in query.options


def sheds(query: Query) -> bool:
    """Tell whether a query answers from a sample where too much comes."""
    return SHEDS in query.options


def revises(options: Sequence[tuple[str, Value]]) -> bool:
    """Tell whether late rows revise a query's answers."""
    return ("late", "revise") in options


def _find(clause: OptionClause, text: str) -> Option:
    """Find an option by its name."""
    option = OPTIONS.get(clause.name)
    if option is not None:
        return option
    hint = nearest(clause.name, OPTIONS)
    detail = None if hint else "existing options: " + ", ".join(OPTIONS)
    raise LanguageError(
        f'there is no option "{clause.name[:40]}"', text=text, place=clause.place, detail=detail, hint=hint
    )


def _read(option: Option, clause: OptionClause, text: str) -> Value:
    """Read an option's value, or say what is allowed."""
    try:
        return option.read(clause.value)
    except ValueError as error:
        shown = str(clause.value) if len(str(clause.value)) <= 40 else str(clause.value)[:37] + "..."
        what = f'option {option.name} takes {option.values}, found "{shown}"'
        detail = str(error) if option.read is _length else None
        raise WrongType(what, text=text, place=clause.place, detail=detail or None) from None


def _not_honoured(option: Option, clause: OptionClause, text: str) -> Unsupported:
    """Build the error for a value of an option that nothing honours yet."""
    hint = f"Write {option.name} = '{option.honoured[0]}', or leave it out."
    what = f"option {option.name} = '{clause.value}' is not supported yet"
    return Unsupported(what, text=text, place=clause.place, detail=option.meaning, hint=hint)
