"""Takes calls of expensive functions out of canonical text: each becomes a column, computed by an operator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from sqlglot import exp

from penstock.evaluate.expressions.compile import Compiled, compile_expression
from penstock.evaluate.expressions.ddl import arrow_type
from penstock.language.binding.canonical import copied, render, strip
from penstock.language.grammar.literals import quote
from penstock.language.grammar.parse import read_canonical
from penstock.model.function import Function

DIGITS: Final = 12  # of a call's digest, by which its column is named

Types = Mapping[str, pa.DataType]


class StaysInPass(Exception):
    """A query cannot leave the shared pass, and why."""


@dataclass(frozen=True, slots=True, eq=False)
class OperatorCall:
    """A function applied to given arguments: all queries that call it so share what it computes."""

    column: str  # that its values are, to who reads them
    text: str  # of the call, for people
    function: Function
    returns: pa.DataType
    arguments: tuple[Compiled, ...]  # over stored columns, and columns of other operators
    needs: tuple[str, ...]  # the other operators among these

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the other operators whose values are its arguments."""
        read = {name for argument in self.arguments for name in argument.names}
        return tuple(name for name in self.needs if name in read)

    def __str__(self) -> str:
        """Print the call."""
        return self.text


@dataclass(slots=True)
class OperatorCalls:
    """The calls found so far in the expressions of one query."""

    expensive: Mapping[str, Function]  # by the name that calls have in canonical text
    types: dict[str, pa.DataType]  # of the columns that are known
    found: dict[str, OperatorCall] = field(default_factory=dict)  # by column, each after those that it needs

    def taken_out(self, text: str) -> str:
        """Write an expression with a column in place of every call."""
        return render(self._without(copied(read_canonical(text))))

    def compiled(self, text: str, what: str) -> Compiled:
        """Compile an expression without calls, or raise that Spark has to compute it."""
        made = compile_expression(text, self.types)
        if made is None:
            raise StaysInPass(f"{what} is computed by Spark alone")
        return made

    def told(self, text: str) -> str:
        """Write an expression that was taken out of its calls for people."""
        for name, operator in self.found.items():
            text = text.replace(quote(name), operator.text)
        return text.replace("`", "")

    def needed(self, compiled: Compiled) -> tuple[str, ...]:
        """List the operators that an expression needs, each after those that it needs itself."""
        wanted = list(compiled.names)
        for name in wanted:
            wanted += self.found[name].needs if name in self.found else ()
        return tuple(name for name in self.found if name in wanted)

    def _without(self, node: exp.Expr) -> exp.Expr:
        """Return a tree, or a column if it is a call."""
        if isinstance(node, exp.Anonymous) and node.name in self.expensive:
            return self._column(
                self.expensive[node.name], [self._without(strip(one)) for one in node.expressions], node
            )
        for name, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(name, self._without(value))
            elif isinstance(value, list):
                node.set(name, [self._without(one) if isinstance(one, exp.Expr) else one for one in value])
        return node

    def _column(self, function: Function, arguments: list[exp.Expr], call: exp.Expr) -> exp.Expr:
        """Note a call, and return the column that stands for it."""
        returns = arrow_type(function.returns or "")
        if returns is None:
            raise StaysInPass(f"{function.name}() returns {function.returns}")
        made = [
            self._argument(one, p.type, function.name) for one, p in zip(arguments, function.parameters, strict=True)
        ]
        told = ", ".join(render(one) for one in arguments)
        name = "#" + hashlib.sha256(f"{function.pinned}({told})".encode()).hexdigest()[:DIGITS]
        if name not in self.found:
            read = {one for argument in made for one in self.needed(argument)}
            needs = tuple(one for one in self.found if one in read)
            text = f"{function.name}({', '.join(self.told(render(_bare(one))) for one in arguments)})"
            self.found[name] = OperatorCall(name, text, function, returns, tuple(made), needs)
            self.types[name] = returns
        return exp.column(name, quoted=True)

    def _argument(self, tree: exp.Expr, type_name: str, function: str) -> Compiled:
        """Compile an argument of exactly the type of its parameter; a cast that changes nothing is left out."""
        wanted, inner = arrow_type(type_name), tree
        if isinstance(tree, exp.Cast):
            inner = strip(tree.this)
            made = compile_expression(render(inner), self.types)
            if made is not None and made.type == wanted:
                return made
        made = self.compiled(render(tree), f"an argument of {function}()")
        if made.type != wanted:
            raise StaysInPass(f"an argument of {function}() is computed by Spark alone")
        return made


def _bare(tree: exp.Expr) -> exp.Expr:
    """Leave out the cast to a parameter's type, which nobody wrote."""
    return strip(tree.this) if isinstance(tree, exp.Cast) else tree
