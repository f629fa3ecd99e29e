"""Compiles canonical Spark SQL over keys and aggregates into functions over Arrow columns.

Only a listed set of operators and types compiles; for these the result equals Spark's in type, value and failure
(ANSI mode, UTC). For everything else ``compile_expression`` returns None, and Spark itself evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.errors import LanguageError
from penstock.evaluate.expressions import operators
from penstock.evaluate.expressions.coercion import (
    COMPARED,
    Columns,
    Node,
    Operation,
    Unlisted,
    arithmetic_type,
    binary,
    common_type,
    comparable_type,
    constant,
    literal_as,
    number_literal,
    string_literal,
    ternary,
    unary,
    widen,
)
from penstock.evaluate.expressions.operators import Evaluated

if TYPE_CHECKING:
    from sqlglot import exp

MAX_DEPTH: Final = 60  # deeper ones go to Spark rather than down the interpreter's stack
MAX_DOUBLES_IN_LIST: Final = 10  # Spark hashes longer lists, where −0.0 and 0.0 may differ


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression ready to run: call it on a table to get one value per row, of exactly ``type``."""

    type: pa.DataType
    operation: Operation
    names: tuple[str, ...]  # the columns it reads

    def __call__(self, table: pa.Table | Columns) -> Evaluated:
        """Evaluate on every row."""
        columns = {name: _contiguous(table[name]) for name in self.names}
        count = table.num_rows if isinstance(table, pa.Table) else max(map(len, table.values()), default=0)
        return self.operation(columns, count)


def compile_expression(text: str, types: Mapping[str, pa.DataType]) -> Compiled | None:
    """Compile canonical Spark SQL over typed columns, or return None if Spark has to evaluate it."""
    from penstock.language.grammar.parse import parse_expression

    if "\\" in text:  # strings with escapes are Spark's to read
        return None
    try:
        tree = parse_expression(text)
        node = _compile(tree, types, 0)
    except (LanguageError, RecursionError, Unlisted):
        return None
    if pa.types.is_null(node.type):
        return None
    read = {column.name for column in tree.find_all(_nodes().Column)}
    return Compiled(node.type, node.operation, tuple(sorted(read)))


def _compile(tree: exp.Expr, types: Mapping[str, pa.DataType], depth: int) -> Node:
    """Compile one node by its kind, its children first."""
    if depth > MAX_DEPTH:
        raise Unlisted
    rule = _rules().get(type(tree))
    if rule is None or any(value for name, value in tree.args.items() if name not in rule.arguments):
        raise Unlisted
    return rule.build(tree, lambda child: _compile(child, types, depth + 1), types)


Child = Callable[[Any], Node]


def _column(tree: exp.Column, _: Child, types: Mapping[str, pa.DataType]) -> Node:
    """Read a column."""
    name = tree.name
    if name not in types:
        raise Unlisted
    return Node(types[name], lambda columns, _: _evaluated(columns[name]))


def _evaluated(column: pa.Array | Evaluated) -> Evaluated:
    """Take a column as it is; one that was computed before may have failed on some rows."""
    return column if isinstance(column, Evaluated) else Evaluated(column)


def _literal(tree: exp.Literal, _: Child, __: Any) -> Node:
    """Type a literal as Spark does: 10 is an int, 10.5 a decimal(3,1), 1e1 a double, 10L a bigint."""
    if tree.is_string:
        return string_literal(tree.this)
    if tree.this[-1].isalpha():
        return _widened(number_literal(tree.this[:-1]), _SUFFIXES.get(tree.this[-1].upper()))
    return number_literal(tree.this)


def _boolean(tree: exp.Boolean, _: Child, __: Any) -> Node:
    """Make true or false."""
    return constant(bool(tree.this), pa.bool_())


def _null(_: exp.Null, __: Child, ___: Any) -> Node:
    """Make a null, whose type its neighbours decide."""
    return constant(None, pa.null())


def _paren(tree: exp.Paren, child: Child, _: Any) -> Node:
    """Look through parentheses; what stood in them is no longer a bare literal."""
    return child(tree.this)


def _negate(tree: exp.Neg, child: Child, _: Any) -> Node:
    """Change the sign; a minus right before a number belongs to the number, so −2147483648 is an int."""
    if isinstance(tree.this, _nodes().Literal) and not tree.this.is_string and not tree.this.this[-1].isalpha():
        return number_literal(f"-{tree.this.this}")
    operand = child(tree.this)
    return unary(operators.negate, arithmetic_type([operand]), operand)


def _call(tree: exp.Anonymous, child: Child, _: Any) -> Node:
    """Call a listed function."""
    function = _FUNCTIONS.get(tree.name.lower())
    if function is None or len(tree.expressions) not in function.counts:
        raise Unlisted
    return function.build([child(operand) for operand in tree.expressions])


def _absolute(operands: Sequence[Node]) -> Node:
    """Drop the sign."""
    [operand] = operands
    return unary(operators.absolute, arithmetic_type([operand]), operand)


def _arithmetic(step: Callable[[Evaluated, Evaluated], Evaluated]) -> Build:
    """Compute on two numbers, in the wider of their types."""

    def build(tree: exp.Binary, child: Child, _: Any) -> Node:
        """Compile both sides and widen them."""
        return _computed(step, child(tree.left), child(tree.right))

    return build


def _computed(step: Callable[[Evaluated, Evaluated], Evaluated], left: Node, right: Node) -> Node:
    """Bring both sides to one type and compute."""
    type_ = arithmetic_type([left, right])
    return binary(step, type_, widen(left, type_), widen(right, type_))


def _divide(tree: exp.Div, child: Child, _: Any) -> Node:
    """Divide as doubles, which is what Spark does with all but decimals."""
    left, right = child(tree.left), child(tree.right)
    arithmetic_type([left, right])
    return binary(operators.divide, pa.float64(), widen(left, pa.float64()), widen(right, pa.float64()))


def _comparison(step: Callable[[Evaluated, Evaluated], Evaluated]) -> Build:
    """Compare two values in their common type."""

    def build(tree: exp.Binary, child: Child, _: Any) -> Node:
        """Compile both sides and compare."""
        return _compared(step, child(tree.left), child(tree.right))

    return build


def _compared(step: Callable[[Evaluated, Evaluated], Evaluated], left: Node, right: Node) -> Node:
    """Bring both sides to one type and compare."""
    type_ = comparable_type([left, right])
    return binary(step, pa.bool_(), widen(left, type_), widen(right, type_))


def _between(tree: exp.Between, child: Child, _: Any) -> Node:
    """Expand to two comparisons, each coerced on its own."""
    value = child(tree.this)
    low = _compared(COMPARE[">="], value, child(tree.args["low"]))
    high = _compared(COMPARE["<="], value, child(tree.args["high"]))
    return binary(operators.both, pa.bool_(), low, high)


def _in(tree: exp.In, child: Child, _: Any) -> Node:
    """Look a value up in a list of literals."""
    value, members = child(tree.this), [child(member) for member in tree.expressions]
    if not members or not all(member.is_literal for member in members):
        raise Unlisted
    type_ = common_type([value, *members])
    if type_ not in COMPARED or (pa.types.is_floating(type_) and len(members) > MAX_DOUBLES_IN_LIST):
        raise Unlisted
    known = [literal_as(member, type_) for member in members if member.value is not None]
    array, has_null = pa.array(known, type_), len(known) < len(members)
    operand = widen(value, type_).operation
    return Node(pa.bool_(), lambda columns, count: operators.among(operand(columns, count), array, has_null))


def _logic(step: Callable[[Evaluated, Evaluated], Evaluated]) -> Build:
    """Combine two truth values."""

    def build(tree: exp.Binary, child: Child, _: Any) -> Node:
        """Compile both sides, which must be boolean."""
        return binary(step, pa.bool_(), _truth(child(tree.left)), _truth(child(tree.right)))

    return build


def _not(tree: exp.Not, child: Child, _: Any) -> Node:
    """Negate a truth value."""
    return unary(operators.invert, pa.bool_(), _truth(child(tree.this)))


def _is(tree: exp.Is, child: Child, _: Any) -> Node:
    """Test for null."""
    operand = child(tree.this)
    if not isinstance(tree.expression, _nodes().Null) or pa.types.is_null(operand.type):
        raise Unlisted
    return unary(operators.is_null, pa.bool_(), operand)


def _case(tree: exp.Case, child: Child, _: Any) -> Node:
    """Choose the first branch whose condition is true; ``CASE x WHEN y`` compares x with y anew for each."""
    branches = []
    for branch in tree.args["ifs"]:
        condition = child(branch.this)
        if tree.this is not None:
            condition = _compared(COMPARE["="], child(tree.this), condition)
        branches.append((condition, child(branch.args["true"])))
    default = tree.args.get("default")
    return _choose(branches, constant(None, pa.null()) if default is None else child(default))


def _choose(branches: Sequence[tuple[Node, Node]], default: Node) -> Node:
    """Nest the branches from the last to the first, all in one type."""
    type_ = common_type([*(value for _, value in branches), default])
    node = widen(default, type_)
    for condition, value in reversed(branches):
        node = ternary(_truth(condition), widen(value, type_), node)
    return node


def _coalesce(operands: Sequence[Node]) -> Node:
    """Take the first value that is not null."""
    type_ = common_type(operands)
    runs = [widen(operand, type_).operation for operand in operands]
    return Node(type_, lambda columns, count: operators.first_known([run(columns, count) for run in runs]))


def _cast(tree: exp.Cast, child: Child, _: Any) -> Node:
    """Widen integers and doubles; no such cast can fail."""
    return _widened(child(tree.this), _WIDE_TYPES.get(tree.args["to"].name.lower()))


def _widened(operand: Node, target: pa.DataType | None) -> Node:
    """Widen a value to a type, if that is listed and holds it."""
    if target is None or common_type([operand, Node(target, operand.operation)]) != target:
        raise Unlisted
    widened = widen(operand, target)
    return Node(target, widened.operation)


def _truth(node: Node) -> Node:
    """Require a boolean, or a null taken for one."""
    return widen(node, pa.bool_())


def _contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


Build = Callable[[Any, Child, Mapping[str, pa.DataType]], Node]


@dataclass(frozen=True, slots=True)
class CompileRule:
    """How one kind of node compiles, and which of its parts are understood."""

    build: Build
    arguments: tuple[str, ...] = ("this", "expression")


COMPARE: Final[dict[str, Callable[[Evaluated, Evaluated], Evaluated]]] = {
    symbol: (lambda left, right, symbol=symbol: operators.compare(symbol, left, right))  # type: ignore[misc]
    for symbol in operators.COMPARISONS
}


@dataclass(frozen=True, slots=True)
class _Function:
    """How a function compiles, and how many operands it takes."""

    build: Callable[[Sequence[Node]], Node]
    counts: range


_WIDE_TYPES: Final = {"bigint": pa.int64(), "double": pa.float64(), "int": pa.int32()}
_SUFFIXES: Final = {"L": pa.int64(), "D": pa.float64()}  # BD, which ends alike, is left to Spark
_FUNCTIONS: Final = {
    "abs": _Function(_absolute, range(1, 2)),
    "coalesce": _Function(_coalesce, range(1, 1_000_000)),
    "nvl": _Function(_coalesce, range(2, 3)),
    "ifnull": _Function(_coalesce, range(2, 3)),
    "if": _Function(lambda of: _choose([(of[0], of[1])], of[2]), range(3, 4)),
    "mod": _Function(lambda of: _computed(operators.remainder, of[0], of[1]), range(2, 3)),
    "double": _Function(lambda of: _widened(of[0], pa.float64()), range(1, 2)),
    "int": _Function(lambda of: _widened(of[0], pa.int32()), range(1, 2)),
}


def _nodes() -> Any:
    """Import the parser's node classes only when something is compiled."""
    from sqlglot import expressions

    return expressions


@cache
def _rules() -> Mapping[type, CompileRule]:
    """Return the listed set: every kind of node that compiles."""
    nodes = _nodes()
    return {
        nodes.Column: CompileRule(_column, ("this",)),
        nodes.Literal: CompileRule(_literal, ("this", "is_string")),
        nodes.Boolean: CompileRule(_boolean, ("this",)),
        nodes.Null: CompileRule(_null, ()),
        nodes.Paren: CompileRule(_paren, ("this",)),
        nodes.Neg: CompileRule(_negate, ("this",)),
        nodes.Anonymous: CompileRule(_call, ("this", "expressions")),
        nodes.Add: CompileRule(_arithmetic(operators.add)),
        nodes.Sub: CompileRule(_arithmetic(operators.subtract)),
        nodes.Mul: CompileRule(_arithmetic(operators.multiply)),
        nodes.Mod: CompileRule(_arithmetic(operators.remainder)),
        nodes.Div: CompileRule(_divide),
        nodes.EQ: CompileRule(_comparison(COMPARE["="])),
        nodes.NEQ: CompileRule(_comparison(COMPARE["<>"])),
        nodes.LT: CompileRule(_comparison(COMPARE["<"])),
        nodes.LTE: CompileRule(_comparison(COMPARE["<="])),
        nodes.GT: CompileRule(_comparison(COMPARE[">"])),
        nodes.GTE: CompileRule(_comparison(COMPARE[">="])),
        nodes.NullSafeEQ: CompileRule(_comparison(operators.same)),
        nodes.Between: CompileRule(_between, ("this", "low", "high")),
        nodes.In: CompileRule(_in, ("this", "expressions")),
        nodes.And: CompileRule(_logic(operators.both)),
        nodes.Or: CompileRule(_logic(operators.any_of)),
        nodes.Not: CompileRule(_not, ("this",)),
        nodes.Is: CompileRule(_is),
        nodes.Case: CompileRule(_case, ("this", "ifs", "default")),
        nodes.Cast: CompileRule(_cast, ("this", "to", "_type")),
        nodes.TryCast: CompileRule(_cast, ("this", "to", "_type")),
    }
