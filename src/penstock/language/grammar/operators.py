"""Lists Spark's binary operators and how tightly each binds, from OR to the signs."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

OR, AND, NOT, PREDICATE, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, ADDITIVE, MULTIPLICATIVE, UNARY = range(1, 12)

BINARY: Final[dict[TokenType, tuple[int, type[exp.Binary]]]] = {
    TokenType.OR: (OR, exp.Or),
    TokenType.AND: (AND, exp.And),
    TokenType.EQ: (COMPARISON, exp.EQ),
    TokenType.NULLSAFE_EQ: (COMPARISON, exp.NullSafeEQ),
    TokenType.NEQ: (COMPARISON, exp.NEQ),
    TokenType.LT: (COMPARISON, exp.LT),
    TokenType.LTE: (COMPARISON, exp.LTE),
    TokenType.GT: (COMPARISON, exp.GT),
    TokenType.GTE: (COMPARISON, exp.GTE),
    TokenType.PIPE: (BIT_OR, exp.BitwiseOr),
    TokenType.CARET: (BIT_XOR, exp.BitwiseXor),
    TokenType.AMP: (BIT_AND, exp.BitwiseAnd),
    TokenType.PLUS: (ADDITIVE, exp.Add),
    TokenType.DASH: (ADDITIVE, exp.Sub),
    TokenType.DPIPE: (ADDITIVE, exp.DPipe),
    TokenType.STAR: (MULTIPLICATIVE, exp.Mul),
    TokenType.SLASH: (MULTIPLICATIVE, exp.Div),
    TokenType.MOD: (MULTIPLICATIVE, exp.Mod),
    TokenType.DIV: (MULTIPLICATIVE, exp.IntDiv),
}
