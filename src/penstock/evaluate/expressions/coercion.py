"""Types literals and brings the operands of an expression to one type, as Spark does.

A literal has the type that its spelling has in Spark. Where types differ they are widened as Spark widens them; an
expression that Spark would widen otherwise, or with a loss, is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock.evaluate.expressions import operators
from penstock.evaluate.expressions.operators import Evaluated

Columns = Mapping[str, pa.Array | Evaluated]
Operation = Callable[[Columns, int], Evaluated]

DECIMAL_DIGITS: Final = 38
INTEGERS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}  # with Spark's decimal digits for each
COMPARED: Final = (pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.float32(), pa.float64(), *INTEGERS)


@dataclass(frozen=True, slots=True)
class Node:
    """A compiled part; ``number`` is the value of a numeric literal, which can take another type exactly."""

    type: pa.DataType
    operation: Operation
    number: Decimal | None = None
    is_literal: bool = False
    value: Any = None  # of a literal


class Unlisted(Exception):
    """A part is not in the listed set; Spark has to evaluate the expression."""


def constant(value: Any, type_: pa.DataType, number: Decimal | None = None) -> Node:
    """Make a literal."""
    return Node(type_, lambda _, count: operators.constant(value, type_, count), number, True, value)


def string_literal(text: str) -> Node:
    """Make a string; quotes within it may have been doubled, which dialects read differently."""
    if "'" in text or '"' in text:
        raise Unlisted
    return constant(text, pa.string())


def number_literal(text: str) -> Node:
    """Make a number of the type that its spelling has in Spark."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Unlisted from None
    if "e" in text.lower():
        return constant(float(text), pa.float64())
    if "." in text:
        return _decimal(number)
    for type_, bits in ((pa.int32(), 31), (pa.int64(), 63)):
        if -(2**bits) <= number < 2**bits:
            return constant(int(number), type_, number)
    raise Unlisted


def _decimal(number: Decimal) -> Node:
    """Make a decimal just wide enough."""
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    if precision > DECIMAL_DIGITS:
        raise Unlisted
    return constant(number, pa.decimal128(precision, scale), number)


def arithmetic_type(nodes: Sequence[Node]) -> pa.DataType:
    """Return the type that arithmetic has: int, bigint or double."""
    type_ = common_type(nodes)
    if type_ not in (pa.int32(), pa.int64(), pa.float64()):
        raise Unlisted
    return type_


def comparable_type(nodes: Sequence[Node]) -> pa.DataType:
    """Return the type to compare in; integers and decimals meet in a decimal that holds both exactly."""
    types = {node.type for node in nodes}
    if any(map(pa.types.is_decimal, types)) and all(pa.types.is_decimal(t) or t in INTEGERS for t in types):
        scale = max(getattr(t, "scale", 0) for t in types)
        whole = max(t.precision - t.scale if pa.types.is_decimal(t) else INTEGERS[t] for t in types)
        if whole + scale > DECIMAL_DIGITS:
            raise Unlisted
        return pa.decimal128(whole + scale, scale)
    type_ = common_type(nodes)
    if type_ not in COMPARED and not pa.types.is_timestamp(type_) and not pa.types.is_decimal(type_):
        raise Unlisted
    return type_


def common_type(nodes: Sequence[Node]) -> pa.DataType:
    """Return the one type of all, the widest integer, or double where integers or decimal literals meet doubles."""
    types = {node.type for node in nodes if not pa.types.is_null(node.type)}
    if len(types) == 1:
        return types.pop()
    if types and all(t in INTEGERS for t in types):
        return max(types, key=lambda t: INTEGERS[t])
    exact = all(t in INTEGERS or t == pa.float64() for t in types - {n.type for n in nodes if n.number is not None})
    literals_exact = all(n.type in INTEGERS or pa.types.is_decimal(n.type) for n in nodes if n.number is not None)
    if pa.float64() in types and exact and literals_exact:
        return pa.float64()
    raise Unlisted


def widen(node: Node, type_: pa.DataType) -> Node:
    """Bring a value to a wider type."""
    if node.type == type_:
        return node
    if node.is_literal and (node.number is not None or pa.types.is_null(node.type)):
        return constant(literal_as(node, type_), type_)
    grows = node.type in INTEGERS and (type_ in INTEGERS or type_ == pa.float64())
    if not (grows or pa.types.is_null(node.type) or _decimals(node, type_)):
        raise Unlisted
    run = node.operation
    return Node(type_, lambda columns, count: operators.convert(run(columns, count), type_))


def literal_as(node: Node, type_: pa.DataType) -> Any:
    """Return a literal's value in another type."""
    if node.number is None:
        return node.value
    if pa.types.is_floating(type_):
        return float(node.number)
    return node.number if pa.types.is_decimal(type_) else int(node.number)


def _decimals(node: Node, type_: pa.DataType) -> bool:
    """Tell whether an integer or decimal goes to a decimal, which the caller made wide enough."""
    return pa.types.is_decimal(type_) and (node.type in INTEGERS or pa.types.is_decimal(node.type))


def unary(step: Callable[[Evaluated], Evaluated], type_: pa.DataType, operand: Node) -> Node:
    """Apply an operator to one operand."""
    run = operand.operation
    return Node(type_, lambda columns, count: step(run(columns, count)))


def binary(step: Callable[[Evaluated, Evaluated], Evaluated], type_: pa.DataType, left: Node, right: Node) -> Node:
    """Apply an operator to two operands."""
    first, second = left.operation, right.operation
    return Node(type_, lambda columns, count: step(first(columns, count), second(columns, count)))


def ternary(condition: Node, then: Node, otherwise: Node) -> Node:
    """Apply a choice to its condition and branches."""
    test, yes, no = condition.operation, then.operation, otherwise.operation
    return Node(
        then.type,
        lambda columns, count: operators.choose(test(columns, count), yes(columns, count), no(columns, count)),
    )
