"""Divides a continuous query into what the shared pass decides and what operators compute behind it.

What is cheap and cannot fail stays in the pass: it is the query's gate, which stores the columns that the rest reads.
The rest is conjuncts and outputs over these columns and over the values of operators, computed here, in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.evaluate.expressions.compile import Compiled
from penstock.evaluate.expressions.ddl import arrow_type
from penstock.evaluate.typed import Definition
from penstock.language.binding.canonical import conjunction, conjuncts, render
from penstock.language.binding.columns_read import is_bare, names_in
from penstock.language.grammar.literals import quote
from penstock.language.grammar.parse import read_canonical
from penstock.language.predicates.split import leaves_of, read_predicate
from penstock.model.function import Function
from penstock.model.query import Output
from penstock.model.schema import Column, Stream, Table
from penstock.share.operators.calls import OperatorCall, OperatorCalls, StaysInPass, Types


@dataclass(frozen=True, slots=True, eq=False)
class OperatedExpression:
    """A conjunct or an output: ready to run once the operators that it needs have computed their values."""

    text: str
    told: str  # for people: functions by their names, columns without backquotes
    compiled: Compiled
    needs: tuple[str, ...]  # operators, each after those that it needs itself


@dataclass(frozen=True, slots=True, eq=False)
class OperatedQuery:
    """A continuous query that calls expensive functions."""

    definition: Definition
    gate: Definition  # what the pass decides, answering the columns that the rest reads
    columns: tuple[str, ...]  # these, in order
    types: tuple[pa.DataType, ...]
    operators: Mapping[str, OperatorCall]  # by column
    conjuncts: tuple[OperatedExpression, ...]
    outputs: tuple[OperatedExpression, ...]  # as the definition has them


def expensive_functions(functions: Iterable[Function]) -> dict[str, Function]:
    """Return the functions that are marked or measured as expensive, by the name that calls have in canonical text."""
    marked = (one for one in functions if one.python is not None and one.python.is_operator)
    return {one.pinned: one for one in marked}


def column_types(stream: Stream, definition: Definition, tables: Mapping[str, Table]) -> dict[str, pa.DataType]:
    """Return the types of the columns that a query may read, where Arrow has them."""
    found = _types_of("", stream.columns)
    for join in definition.query.joins:
        if join.table in tables:
            found |= _types_of(f"{join.id}.", tables[join.table].columns)
    return found


def _types_of(before: str, columns: Iterable[Column]) -> dict[str, pa.DataType]:
    """Return the types of columns by name."""
    typed = ((before + column.name, arrow_type(column.type)) for column in columns)
    return {name: found for name, found in typed if found is not None}


def calls_any(definition: Definition, expensive: Mapping[str, Function]) -> bool:
    """Tell whether a query calls one of the functions."""
    texts = [definition.typed.where or "", *definition.query.keys]
    texts += [] if definition.query.is_continuous else [definition.query.text]
    return any(f"{name}(" in text for name in expensive for text in texts)


def operated(
    definition: Definition, expensive: Mapping[str, Function], types: Types, doubtful: frozenset[str] = frozenset()
) -> OperatedQuery:
    """Divide a query, or raise why it stays in the pass; ``doubtful`` columns may not be there in a row."""
    typed, query = definition.typed, definition.query
    calls = OperatorCalls(expensive, dict(types))
    cheap, rest = _divided(definition, expensive)
    later = [_expression(calls, text, "a condition") for text in rest]
    if any(one.compiled.type != pa.bool_() for one in later):
        raise StaysInPass("a condition is computed by Spark alone")
    outputs = [_output(calls, definition, place) for place in range(len(query.outputs))]
    arguments = [one for operator in calls.found.values() for one in operator.arguments]
    read = {name for one in (*(e.compiled for e in (*later, *outputs)), *arguments) for name in one.names}
    columns = tuple(sorted(read - calls.found.keys()))
    if not columns:
        raise StaysInPass("its functions read no column")
    if not doubtful.isdisjoint({*columns, *names_in(cheap or "")}):
        raise StaysInPass("it reads a column that may not be computed")
    kept = tuple(types[name] for name in columns)
    gate = replace(
        query,
        where=cheap,
        keys=tuple(map(quote, columns)),
        outputs=tuple(Output(name, f"`k{place}`") for place, name in enumerate(columns)),
    )
    tests = tuple(one for one in typed.attributes if not any(f"{name}(" in one.text for name in expensive))
    bare = replace(
        typed, query=gate, where=cheap, key_types=kept, output_types=kept, attributes=tests, fallible=frozenset()
    )
    gated = replace(definition, typed=bare)
    return OperatedQuery(definition, gated, columns, kept, calls.found, tuple(later), tuple(outputs))


def _divided(definition: Definition, expensive: Mapping[str, Function]) -> tuple[str | None, list[str]]:
    """Divide a condition into what is cheap and cannot fail, and all other conjuncts."""
    where = definition.typed.where
    if where is None:
        return None, []
    fails = {one.text: one.may_fail for one in definition.typed.attributes}
    cheap, rest = [], []
    for node in conjuncts(read_canonical(where)):
        text = render(node)
        dear = any(f"{name}(" in text for name in expensive)
        if dear or any(fails.get(leaf.text, True) for leaf in leaves_of(read_predicate(text))):
            rest.append(text)
        else:
            cheap.append(node)
    return (conjunction(cheap) if cheap else None), rest


def _expression(calls: OperatorCalls, text: str, what: str) -> OperatedExpression:
    """Compile an expression over columns and operators."""
    taken_out = calls.taken_out(text)
    compiled = calls.compiled(taken_out, what)
    return OperatedExpression(text, calls.told(taken_out), compiled, calls.needed(compiled))


def _output(calls: OperatorCalls, definition: Definition, place: int) -> OperatedExpression:
    """Compile an output of exactly the type that Spark gives it."""
    output = definition.query.outputs[place]
    text = definition.query.keys[int(output.expression.strip("`")[1:])]
    if is_bare(text) and text[1:-1].replace("``", "`") not in calls.types:
        raise StaysInPass(f'output "{output.name}" has a type that is Spark\'s alone')
    found = _expression(calls, text, f'output "{output.name}"')
    if found.compiled.type != definition.typed.output_types[place]:
        raise StaysInPass(f'output "{output.name}" is computed by Spark alone')
    return found
