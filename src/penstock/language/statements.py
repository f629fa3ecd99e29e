"""Defines every statement of the language as a frozen value that prints as text which parses back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp

from penstock.language.binding.query_text import write_name
from penstock.language.grammar.dialect import WindowClause
from penstock.language.grammar.literals import write_string
from penstock.language.options import OptionClause
from penstock.language.printing import (
    write_column,
    write_definition,
    write_expression,
    write_option,
    write_select,
    write_stream,
    write_table,
)
from penstock.model.duration import format_duration
from penstock.model.function import Parameter
from penstock.model.schema import Column, Stream, Table

Kind = Literal["query", "stream", "table", "function"]
Listed = Literal["streams", "tables", "queries", "functions"]


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """A SELECT: its tree, the user's text that places in the tree refer to, and its options."""

    expression: exp.Select
    text: str
    options: tuple[OptionClause, ...] = ()

    def __str__(self) -> str:
        """Print the query on one line."""
        return write_select(self.expression) + _with(self.options)

    def __eq__(self, other: object) -> bool:
        """Compare what is written, not where it stands."""
        return isinstance(other, Select) and str(self) == str(other)

    def __hash__(self) -> int:
        """Hash what is written."""
        return hash(str(self))


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression: its tree, and the user's text that places in the tree refer to."""

    tree: exp.Expr
    text: str

    def __str__(self) -> str:
        """Print the expression."""
        return write_expression(self.tree)

    def __eq__(self, other: object) -> bool:
        """Compare what is written, not where it stands."""
        return isinstance(other, Expression) and str(self) == str(other)

    def __hash__(self) -> int:
        """Hash what is written."""
        return hash(str(self))


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE STREAM name (columns) USING format …"""

    stream: Stream
    if_not_exists: bool = False
    or_replace: bool = False

    def __str__(self) -> str:
        """Print the statement."""
        head = "CREATE OR REPLACE STREAM" if self.or_replace else "CREATE STREAM"
        return write_stream(self.stream, _head(head, self.if_not_exists))


@dataclass(frozen=True, slots=True)
class CreateStreamAs:
    """CREATE STREAM name AS SELECT …"""

    name: str
    select: Select
    if_not_exists: bool = False

    def __str__(self) -> str:
        """Print the statement."""
        return f"{_head('CREATE STREAM', self.if_not_exists)} {write_name(self.name)} AS {self.select}"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE name (columns) USING format …"""

    table: Table
    if_not_exists: bool = False
    or_replace: bool = False

    def __str__(self) -> str:
        """Print the statement."""
        head = "CREATE OR REPLACE TABLE" if self.or_replace else "CREATE TABLE"
        return write_table(self.table, _head(head, self.if_not_exists))


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """CREATE QUERY name AS SELECT …"""

    name: str
    select: Select
    if_not_exists: bool = False
    or_replace: bool = False

    def __str__(self) -> str:
        """Print the statement."""
        head = _head("CREATE OR REPLACE QUERY" if self.or_replace else "CREATE QUERY", self.if_not_exists)
        return f"{head} {write_name(self.name)} AS {self.select}"


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """CREATE FUNCTION name(parameters) RETURNS type RETURN expression."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str | None
    body: Expression
    if_not_exists: bool = False
    or_replace: bool = False

    def __str__(self) -> str:
        """Print the statement."""
        head = _head("CREATE OR REPLACE FUNCTION" if self.or_replace else "CREATE FUNCTION", self.if_not_exists)
        listed = [(parameter.name, parameter.type) for parameter in self.parameters]
        return write_definition(head, self.name, listed, self.returns, str(self.body))


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP QUERY, STREAM, TABLE or FUNCTION."""

    kind: Kind
    name: str
    if_exists: bool = False

    def __str__(self) -> str:
        """Print the statement."""
        return f"DROP {self.kind.upper()} {'IF EXISTS ' if self.if_exists else ''}{write_name(self.name)}"


@dataclass(frozen=True, slots=True)
class Pause:
    """What ALTER QUERY name PAUSE asks for."""

    def __str__(self) -> str:
        """Print the action."""
        return "PAUSE"


@dataclass(frozen=True, slots=True)
class Resume:
    """What ALTER QUERY name RESUME asks for."""

    def __str__(self) -> str:
        """Print the action."""
        return "RESUME"


Change = Select | WindowClause | tuple[OptionClause, ...] | Pause | Resume


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """ALTER QUERY name: a new SELECT, another window, other options, a pause or its end."""

    name: str
    change: Change

    def __str__(self) -> str:
        """Print the statement."""
        match self.change:
            case Select():
                action = f"AS {self.change}"
            case WindowClause():
                action = f"SET WINDOW {self.change}"
            case Pause() | Resume():
                action = str(self.change)
            case options:
                action = f"SET ({', '.join(map(str, options))})"
        return f"ALTER QUERY {write_name(self.name)} {action}"


@dataclass(frozen=True, slots=True)
class AddColumns:
    """What ALTER STREAM name ADD COLUMN asks for."""

    columns: tuple[Column, ...]

    def __str__(self) -> str:
        """Print the action."""
        return f"ADD COLUMN {', '.join(map(write_column, self.columns))}"


@dataclass(frozen=True, slots=True)
class DropColumns:
    """What ALTER STREAM name DROP COLUMN asks for."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        """Print the action."""
        return f"DROP COLUMN {', '.join(map(write_name, self.names))}"


@dataclass(frozen=True, slots=True)
class SetOptions:
    """What ALTER STREAM name SET OPTIONS asks for: options of the source, and of the stream itself."""

    options: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Print the action."""
        return f"SET OPTIONS ({', '.join(write_option(*pair) for pair in self.options)})"


@dataclass(frozen=True, slots=True)
class SetLateness:
    """What ALTER STREAM name WATERMARK FOR ts AS ts - d asks for."""

    time: str
    lateness_us: int

    def __str__(self) -> str:
        """Print the action."""
        time = write_name(self.time)
        late = f" AS {time} - INTERVAL {write_string(format_duration(self.lateness_us))}" if self.lateness_us else ""
        return f"WATERMARK FOR {time}{late}"


SourceChange = AddColumns | DropColumns | SetOptions | SetLateness


@dataclass(frozen=True, slots=True)
class AlterSource:
    """ALTER STREAM or TABLE name: other columns, options or lateness."""

    kind: Literal["stream", "table"]
    name: str
    change: SourceChange

    def __str__(self) -> str:
        """Print the statement."""
        return f"ALTER {self.kind.upper()} {write_name(self.name)} {self.change}"


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN, EXPLAIN QUERY name or EXPLAIN SELECT …"""

    target: str | Select | None = None

    def __str__(self) -> str:
        """Print the statement."""
        if self.target is None:
            return "EXPLAIN"
        return (
            f"EXPLAIN {self.target}" if isinstance(self.target, Select) else f"EXPLAIN QUERY {write_name(self.target)}"
        )


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW STREAMS, TABLES, QUERIES or FUNCTIONS."""

    listed: Listed

    def __str__(self) -> str:
        """Print the statement."""
        return f"SHOW {self.listed.upper()}"


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """SHOW CREATE QUERY, STREAM, TABLE or FUNCTION name."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        """Print the statement."""
        return f"SHOW CREATE {self.kind.upper()} {write_name(self.name)}"


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE QUERY, STREAM, TABLE or FUNCTION name."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        """Print the statement."""
        return f"DESCRIBE {self.kind.upper()} {write_name(self.name)}"


Creation = CreateStream | CreateStreamAs | CreateTable | CreateQuery | CreateFunction
Question = Explain | Show | ShowCreate | Describe
Statement = Select | Creation | Drop | AlterQuery | AlterSource | Question


def _head(words: str, if_not_exists: bool) -> str:
    """Write the first words of a CREATE."""
    return f"{words} IF NOT EXISTS" if if_not_exists else words


def _with(options: tuple[OptionClause, ...]) -> str:
    """Write the options after a SELECT."""
    return f" WITH ({', '.join(map(str, options))})" if options else ""


@dataclass(frozen=True, slots=True)
class Syntax:
    """One form of a statement: its first words, how it is written, and what it does."""

    head: str
    syntax: str
    meaning: str


STATEMENTS: Final = (
    Syntax(
        "SELECT",
        "SELECT [DISTINCT] … FROM stream [RANGE d SLIDE d OFFSET d] JOIN … WHERE … GROUP BY … HAVING … "
        "ORDER BY … LIMIT n OFFSET n WITH (option = value, …)",
        "what a query asks; a statement of its own only inside CREATE QUERY, ALTER QUERY and EXPLAIN",
    ),
    Syntax(
        "CREATE STREAM",
        "CREATE [OR REPLACE] STREAM [IF NOT EXISTS] name (column type [GENERATED ALWAYS AS (expression)], …) "
        "USING format OPTIONS (key = 'value', …) WATERMARK FOR column [AS column - d]",
        "creates a stream with its source and event time; without columns, those of the files are taken; "
        "OR REPLACE lets the one of that name go on so",
    ),
    Syntax(
        "CREATE STREAM AS",
        "CREATE STREAM [IF NOT EXISTS] name AS SELECT …",
        "a stream made of a query's answers, or of the pairs of two streams, which other queries read",
    ),
    Syntax(
        "CREATE TABLE",
        "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name (column type, …) USING format OPTIONS (key = 'value', …)",
        "creates a table that queries may join; OR REPLACE lets the one of that name go on so",
    ),
    Syntax(
        "CREATE QUERY",
        "CREATE [OR REPLACE] QUERY [IF NOT EXISTS] name AS SELECT …",
        "creates a continuous query; OR REPLACE replaces the one of that name",
    ),
    Syntax(
        "CREATE FUNCTION",
        "CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name(parameter type, …) [RETURNS type] RETURN expression",
        "gives an expression a name that later statements may call",
    ),
    Syntax(
        "DROP",
        "DROP {QUERY | STREAM | TABLE | FUNCTION} [IF EXISTS] name",
        "drops what is named; answers stay in the sinks, and queries keep the functions they were created with",
    ),
    Syntax(
        "ALTER QUERY AS",
        "ALTER QUERY name AS SELECT …",
        "gives a query a new definition for the windows that begin from now on",
    ),
    Syntax(
        "ALTER QUERY SET WINDOW",
        "ALTER QUERY name SET WINDOW [RANGE d SLIDE d OFFSET d]",
        "gives a query another window and keeps the rest",
    ),
    Syntax(
        "ALTER QUERY SET",
        "ALTER QUERY name SET (option = value, …)",
        "sets options of a query and keeps the rest",
    ),
    Syntax(
        "ALTER QUERY PAUSE",
        "ALTER QUERY name PAUSE",
        "pauses a query: it answers no window until it is resumed, and what it needs is still kept",
    ),
    Syntax(
        "ALTER QUERY RESUME",
        "ALTER QUERY name RESUME",
        "resumes a query that was paused, by its user or by an error",
    ),
    Syntax(
        "ALTER STREAM",
        "ALTER STREAM name {ADD COLUMN column type, … | DROP COLUMN column, … | SET OPTIONS (key = 'value', …) "
        "| WATERMARK FOR column [AS column - d]}",
        "lets a stream go on with other columns, options or lateness",
    ),
    Syntax(
        "ALTER TABLE",
        "ALTER TABLE name {ADD COLUMN column type, … | DROP COLUMN column, … | SET OPTIONS (key = 'value', …)}",
        "lets a table go on with other columns or options",
    ),
    Syntax("EXPLAIN", "EXPLAIN", "shows the plan of all streams: what queries share"),
    Syntax("EXPLAIN QUERY", "EXPLAIN QUERY name", "shows one query, and the queries it shares its partials with"),
    Syntax("EXPLAIN SELECT", "EXPLAIN SELECT …", "shows the plan as if the query were added"),
    Syntax("SHOW", "SHOW {STREAMS | TABLES | QUERIES | FUNCTIONS}", "lists what there is"),
    Syntax(
        "SHOW CREATE",
        "SHOW CREATE {QUERY | STREAM | TABLE | FUNCTION} name",
        "prints the statement that creates it",
    ),
    Syntax(
        "DESCRIBE",
        "DESCRIBE {QUERY | STREAM | TABLE | FUNCTION} name",
        "lists columns and their types; of a function, its parameters",
    ),
)
