"""Turns a bound query that sheds load into one over the weights of rows, with a bound beside every answer.

Rows of weight 0 are shed: the condition leaves them out, before anything is computed of them. The others count as
often as their weight says, which is how every aggregate is answered, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from penstock.errors import LanguageError, Unsupported
from penstock.language.binding.scope import bound
from penstock.language.grammar.literals import quote
from penstock.language.options import SHEDS, OptionClause, sheds
from penstock.language.statements import Select
from penstock.model.query import Aggregate, Output, Query
from penstock.model.sampling import BOUND, SHARE, TWINS, WEIGHT

ESTIMATED: Final = ("count", "count_if", "sum", "avg")  # aggregates that a sample estimates without bias, or nearly


def kept_rows(options: Sequence[tuple[str, str | int]]) -> list[exp.Expr]:
    """Return the condition that leaves out the rows that are shed, if a query's options ask for it."""
    return [exp.GT(this=bound(0, WEIGHT), expression=exp.Literal.number(0))] if SHEDS in options else []


def estimated(query: Query, select: Select, columns: Sequence[str]) -> Query:
    """Let a query that sheds load answer from the weights of rows, or refuse what has no meaning of a sample.

    ``columns`` are those of its stream.
    """
    if not sheds(query):
        return query
    for taken in {WEIGHT, TWINS}.intersection(column.lower() for column in columns):
        what, detail = f'option shed of a stream with a column "{taken}"', "What is told of sampled rows has that name."
        _refuse(what, select, detail, "Give the column another name.")
    _check(query, select)
    numbers = {a: i for i, a in enumerate(map(_estimate, query.aggregates))}
    outputs: list[Output] = []
    for output in query.outputs:
        outputs.append(output)
        if (place := _place(output, query, select)) is not None:
            number = numbers.setdefault(_bound(query.aggregates[place]), len(numbers))
            outputs.append(Output(output.name + BOUND, quote(f"a{number}")))
    number = numbers.setdefault(Aggregate("sampled_share", (quote(WEIGHT),)), len(numbers))
    outputs.append(Output(SHARE, quote(f"a{number}")))
    _check_names(outputs, select)
    return replace(query, aggregates=tuple(numbers), outputs=tuple(outputs))


def _check(query: Query, select: Select) -> None:
    """Refuse queries whose answers cannot be estimated, or not be bounded."""
    for aggregate in query.aggregates:
        if aggregate.function not in ESTIMATED or aggregate.distinct or len(aggregate.arguments) > 1:
            detail = f"A sample estimates {', '.join(ESTIMATED)} of one argument; it says nothing sure of others."
            _refuse(f"{aggregate} of a sample", select, detail, "Leave shed out, or ask for it in a query of its own.")
    if query.joins:
        detail = "A row that matches several rows of a table is kept or shed with all of them: no bound would hold."
        _refuse("option shed beside a join", select, detail, "Leave shed out, or shed in a query without the join.")
    if query.chooses_rows:
        detail = "Which groups come first, or are equal, is not known from a sample."
        _refuse("option shed beside DISTINCT, LIMIT or OFFSET", select, detail, "Leave shed out, or these.")
    for name in ("change", "revise"):
        option = {"change": "emit", "revise": "late"}[name]
        if (option, name) in query.options:
            detail = "Answers of a sample differ by chance." if name == "change" else "A row that is shed revises none."
            _refuse(f"option shed beside {option} = '{name}'", select, detail, f"Leave out shed, or {option}.")


def _estimate(aggregate: Aggregate) -> Aggregate:
    """Return what estimates an aggregate from a sample."""
    return Aggregate(f"sampled_{aggregate.function}", (*aggregate.arguments, quote(WEIGHT)))


def _bound(aggregate: Aggregate) -> Aggregate:
    """Return what bounds the estimate of an aggregate."""
    return Aggregate(f"bound_of_{aggregate.function}", (*aggregate.arguments, quote(WEIGHT), quote(TWINS)))


def _place(output: Output, query: Query, select: Select) -> int | None:
    """Return which aggregate an output is; None: it is made of keys alone."""
    names = [quote(f"a{number}") for number in range(len(query.aggregates))]
    if output.expression in names:
        return names.index(output.expression)
    if any(name in output.expression for name in names):
        detail = "An expression over aggregates has no bound of its own."
        _refuse(f'"{output.name}" of a sample', select, detail, "Select the aggregates themselves; avg(x) has a bound.")
    return None


def _check_names(outputs: Sequence[Output], select: Select) -> None:
    """Refuse an output that is called as a column which answers of a sample have besides."""
    seen: set[str] = set()
    for output in outputs:
        if output.name.lower() in seen:
            what, detail = f'two outputs are called "{output.name}"', "answers of a sample have a column of that name"
            hint = "Add an alias with AS."
            raise LanguageError(what, text=select.text, place=_clause(select).place, detail=detail, hint=hint)
        seen.add(output.name.lower())


def _refuse(what: str, select: Select, detail: str, hint: str) -> None:
    """Raise for what has no meaning of a sample."""
    place = _clause(select).place
    raise Unsupported(f"{what} is not available", text=select.text, place=place, detail=detail, hint=hint)


def _clause(select: Select) -> OptionClause:
    """Find where the option stands."""
    return next(clause for clause in select.options if clause.name == "shed")
