"""Cells tell exactly the conditions that take a row: every way of dividing them equals asking each predicate alone."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.split import Comparison, Every, Formula, Leaf, read_predicate
from penstock.model.recent import Recent
from penstock.share.conditions import cell_parts as dividing_module
from penstock.share.conditions import cells as cells_module
from penstock.share.conditions import condition_groups as families_module
from penstock.share.conditions.axes import FAILED_AT, FIRST_AT, NULL_AT, Axis, place
from penstock.share.conditions.cell_parts import ConditionGroupMemory, divide
from penstock.share.conditions.cells import NOBODY, CellPart, Cells, signatures
from tests.cases import cases

BIGGEST = (1 << 63) - 1
ATTRIBUTES = {
    name: Attribute(name, kind, may_fail=fails)
    for name, kind, fails in [
        ("`n`", "bigint", False),
        ("`d`", "double", False),
        ("`s`", "string", False),
        ("`m`", "decimal(20,2)", False),
        ("`b`", "boolean", False),
        ("`c`", "boolean", False),
        ("`q`", "double", True),  # computing it may fail
    ]
}
VALUES: dict[str, list[Any]] = {
    "`n`": [None, -BIGGEST - 1, -1, 0, 1, 2, 3, (1 << 53) + 1, BIGGEST - 1, BIGGEST],
    "`d`": [None, -math.inf, -0.0, 0.0, math.nextafter(0.5, 1), 0.5, 1.0, 2.5, math.inf, math.nan],
    "`s`": [None, "", "a", "ab", "abc", "b", "é", "ac"],
    "`m`": [None, Decimal("-1.00"), Decimal("0.00"), Decimal("0.50"), Decimal("2.50"), Decimal("3.00")],
    "`b`": [None, False, True],
    "`c`": [None, False, True],
    "`q`": [None, "failed", 0.0, 0.5, 1.0, math.nan],
}
CONSTANTS = {
    "`n`": [
        "0",
        "1",
        "2.5",
        "3",
        "-1",
        "9223372036854775807",
        "9223372036854775808",
        "9007199254740993",
        "NULL",
        "1.0",
    ],
    "`d`": ["0", "-0.0D", "0.5", "5e-1", "1", "2.5D", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "NULL"],
    "`s`": ["''", "'a'", "'ab'", "'b'", "'zz'", "NULL"],
    "`m`": ["0", "0.5", "0.505", "2.50", "-7", "NULL"],
    "`q`": ["0", "0.5D", "1", "NULL"],
}


def simple_tests() -> st.SearchStrategy[str]:
    def of(attribute: str) -> st.SearchStrategy[str]:
        constant = st.sampled_from(CONSTANTS[attribute])
        compared = st.builds(
            lambda op, c, left: f"{attribute} {op} {c}" if left else f"{c} {op} {attribute}",
            st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]),
            constant,
            st.booleans(),
        )
        listed = st.lists(constant, min_size=1, max_size=3).map(lambda cs: f"{attribute} IN ({', '.join(cs)})")
        between = st.tuples(constant, constant).map(lambda c: f"{attribute} BETWEEN {c[0]} AND {c[1]}")
        null = st.sampled_from([f"{attribute} IS NULL", f"{attribute} IS NOT NULL"])
        return st.one_of(compared, listed, between, null)

    likes = st.sampled_from(["`s` LIKE 'a%'", "`s` LIKE '%'", "`s` LIKE 'ab'", "`s` NOT LIKE 'ab%'"])
    booleans = st.sampled_from(
        ["`b`", "`c`", "`b` = TRUE", "`c` <> FALSE", "`b` IS NOT TRUE", "`c` IS FALSE", "`b` <=> NULL"]
    )
    return st.one_of(*(of(attribute) for attribute in CONSTANTS), likes, booleans)


def predicates() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: f"({p[0]}) AND ({p[1]})"),
            st.tuples(inner, inner).map(lambda p: f"({p[0]}) OR ({p[1]})"),
            inner.map(lambda p: f"NOT ({p})"),
        )

    turned = (
        simple_tests()
        .filter(lambda t: "BETWEEN" not in t)
        .flatmap(lambda t: st.sampled_from([t, f"({t}) IS NULL", f"({t}) IS TRUE", f"({t}) IS NOT FALSE"]))
    )
    return st.recursive(st.one_of(simple_tests(), turned), grown, max_leaves=5)


# A naive meaning: outcomes as "T", "F", "N" (unknown) and "E" (failed), in the order of evaluation.


def truth(formula: Formula, row: dict[str, Any]) -> str:
    if isinstance(formula, Leaf):
        outcome = leaf_truth(formula, row)
        return "FTNE"[formula.turns["FTNE".index(outcome)]]
    every = isinstance(formula, Every)
    stop, found = ("F", "T") if every else ("T", "F")
    for part in formula.parts:
        outcome = truth(part, row)
        if outcome in (stop, "E"):
            return outcome
        found = "N" if "N" in (found, outcome) else found
    return found


def leaf_truth(leaf: Leaf, row: dict[str, Any]) -> str:
    value = row[leaf.attribute]
    if leaf.attribute == "`n`" and isinstance(leaf.test, Comparison) and leaf.test.operator != "=":
        constant = leaf.test.constant.value
        if isinstance(constant, int | Fraction) and not -BIGGEST - 1 <= constant <= BIGGEST:
            return compared(leaf.test.operator, 0, constant)  # as Spark: decided before any row
    if value == "failed":
        return "E"
    kind = type(leaf.test).__name__
    if kind == "Missing":
        return "T" if value is None else "F"
    if value is None:
        return "N"
    if kind == "IsTrue":
        return "T" if value else "F"
    if kind == "Prefix":
        return "T" if value.startswith(leaf.test.text) else "F"  # type: ignore[union-attr]
    if kind == "OneOf":
        outcomes = [compared("=", value, c.value) for c in leaf.test.constants]  # type: ignore[union-attr]
        return "T" if "T" in outcomes else ("N" if "N" in outcomes else "F")
    return compared(leaf.test.operator, value, leaf.test.constant.value)  # type: ignore[union-attr]


def compared(operator: str, value: Any, constant: Any) -> str:
    if constant is None:
        return "N"
    a, b = ordered(value, constant)
    return "T" if {"=": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator] else "F"


def ordered(value: Any, constant: Any) -> tuple[Any, Any]:
    if isinstance(value, str):
        return value.encode(), constant.encode()
    if isinstance(value, bool):
        return value, constant
    if isinstance(value, float):
        return tuple((math.isnan(x), 0.0 if math.isnan(x) else x) for x in (value, float(constant)))  # type: ignore[return-value]
    if isinstance(constant, float):
        return ordered(float(value), constant)
    return Fraction(value), Fraction(constant)


# What the job does: places by search, numbers by tables.


def position(axis: Axis, value: Any) -> int:
    if value is None:
        return NULL_AT
    if value == "failed":
        return FAILED_AT
    if axis.key.kind == "boolean":
        return 3 if value else 2
    if axis.key.kind == "string":
        value = value.encode()
    elif axis.key.kind == "double":
        value = float(value) + 0.0
    else:
        value = Fraction(value)
    order = [
        (isinstance(c, float) and math.isnan(c), 0 if isinstance(c, float) and math.isnan(c) else c)
        for c in axis.constants
    ]
    wanted = (
        isinstance(value, float) and math.isnan(value),
        0 if isinstance(value, float) and math.isnan(value) else value,
    )
    at = bisect.bisect_left(order, wanted)
    hit = at < len(order) and order[at] == wanted
    return FIRST_AT + 2 * at + (1 if hit else 0)


def number(part: CellPart, places: Sequence[int]) -> int:
    head = sum(int(digit.table[places[digit.axis]]) for digit in part.heads)
    starts = [0 if digit.starts is None else int(digit.starts[head]) for digit in part.digits]
    cell = int(part.bases[head]) + sum(
        int(digit.table[start + places[digit.axis]]) for digit, start in zip(part.digits, starts, strict=True)
    )
    if part.numbers is not None:
        return int(part.numbers[cell])
    return -1 if part.dead[head] else cell + part.first


def told(cells: Cells, row: dict[str, Any], conditions: int) -> tuple[list[bool], bool]:
    places = [position(axis, row[axis.key.attribute.text]) for axis in cells.axes]
    taken, failed = [False] * conditions, False
    for part in cells.parts[0]:
        found = number(part, places)
        if found <= NOBODY:
            continue
        signed = part.fragments if part.fragments is not None else signatures(part, np.array([found - part.first]))
        at = found - part.first if part.fragments is not None else 0
        failed |= bool(signed.failed[at])
        for condition in part.conditions:
            taken[condition] |= bool(int(signed.words[at, condition // 62]) >> (condition % 62) & 1)
    return taken, failed


def divided(formulas: Sequence[Formula], memory: ConditionGroupMemory | None = None) -> Cells:
    return divide([formulas], lambda _, place: formulas[place], ATTRIBUTES, memory or ConditionGroupMemory())


def rows() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


@pytest.mark.parametrize("copy_worth", [0, 3_000])
@pytest.mark.parametrize("most_listed", [0, 65_536])
@settings(deadline=None, max_examples=cases(100))
@given(texts=st.lists(predicates(), min_size=1, max_size=8), sample=st.lists(rows(), min_size=1, max_size=20))
def test_cells_take_a_row_as_each_predicate_alone_does(
    texts: list[str], sample: list[dict[str, Any]], copy_worth: int, most_listed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families_module, "COPY_WORTH", copy_worth)
        patch.setattr(cells_module, "MOST_LISTED", most_listed)
        patch.setattr(dividing_module, "parts_made", Recent(64))
        formulas = [read_predicate(text) for text in texts]
        cells = divided(formulas)
    for row in sample:
        outcomes = [truth(formula, row) for formula in formulas]
        taken, failed = told(cells, row, len(texts))
        assert taken == [outcome == "T" for outcome in outcomes], (texts, row)
        assert failed == ("E" in outcomes), (texts, row)


@given(text=predicates(), sample=st.lists(rows(), min_size=1, max_size=20))
def test_a_predicate_its_negation_and_its_unknown_part_take_each_row_once(
    text: str, sample: list[dict[str, Any]]
) -> None:
    formulas = [read_predicate(t) for t in (text, f"NOT ({text})")]
    cells = divided(formulas)
    for row in sample:
        outcome = truth(formulas[0], row)
        taken, failed = told(cells, row, 2)
        assert taken == [outcome == "T", outcome == "F"]
        assert failed == (outcome == "E")


@settings(deadline=None, max_examples=cases(40))
@given(texts=st.lists(predicates(), min_size=2, max_size=8, unique=True), data=st.data())
def test_parts_kept_from_another_plan_are_those_that_would_be_made_anew(texts: list[str], data: st.DataObject) -> None:
    memory = ConditionGroupMemory()
    for size in range(1, len(texts) + 1):
        chosen = [read_predicate(text) for text in data.draw(st.permutations(texts))[:size]]
        kept = divided(chosen, memory)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dividing_module, "parts_made", Recent(64))
            anew = divided(chosen, memory)
        for one, other in zip(kept.parts[0], anew.parts[0], strict=True):
            assert (one.conditions, one.first, one.words, one.cells) == (
                other.conditions,
                other.first,
                other.words,
                other.cells,
            )
            assert np.array_equal(one.numbers, other.numbers)  # type: ignore[arg-type]
            assert [d.table.tolist() for d in (*one.heads, *one.digits)] == [
                d.table.tolist() for d in (*other.heads, *other.digits)
            ]


def test_a_new_constant_leaves_the_parts_of_other_attributes_as_they_were() -> None:
    texts = [f"`n` > {i}" for i in range(200)] + [f"`d` < {i}" for i in range(200)]
    before = [read_predicate(text) for text in texts]
    after = [*before, read_predicate("`n` > 1000")]
    memory = ConditionGroupMemory()
    first = divided(before, memory).parts[0]
    second = divided(after, memory).parts[0]
    assert second[1].shapes is first[1].shapes
    assert second[1].first == first[1].first
    assert second[0].cells == first[0].cells + 1


def test_one_constant_more_does_not_part_what_is_together() -> None:
    memory = ConditionGroupMemory()
    texts = [f"`{name}` > {i}" for i in range(54) for name in "nd"]  # at last 56 × 56 cells, more than two copies cost
    formulas = [read_predicate(text) for text in texts]
    assert [len(divided(formulas[: 2 * size], memory).parts[0]) for size in range(50, 55)] == [1, 1, 1, 1, 1]
    more = [read_predicate(f"`{name}` > {i}") for i in range(120) for name in "nd"]
    assert len(divided(more, memory).parts[0]) == 2
    assert len(divided(more[:104], memory).parts[0]) == 2  # what is apart joins later, too
    assert len(divided(more[:104]).parts[0]) == 1


def test_a_plan_that_is_only_shown_bends_no_later_one() -> None:
    memory = ConditionGroupMemory()
    more = [read_predicate(f"`{name}` > {i}") for i in range(120) for name in "nd"]
    assert len(divided(more[:104], memory).parts[0]) == 1
    assert len(divided(more, memory.copy()).parts[0]) == 2
    assert len(divided(more[:104], memory).parts[0]) == 1


def test_flags_stay_heads_while_each_is_tested_once_more_in_turn() -> None:
    flags = {f"`f{i}`": Attribute(f"`f{i}`", "boolean", may_fail=False) for i in range(5)}
    texts = [f"`f{i % 5}` AND `n` > {i}" for i in range(60)]
    formulas = [read_predicate(text) for text in texts]
    heads, memory = set(), ConditionGroupMemory()
    for size in range(40, 60):
        some = formulas[:size]
        [part] = divide([some], lambda _, place, some=some: some[place], ATTRIBUTES | flags, memory).parts[0]  # type: ignore[misc]
        heads.add(tuple(digit.axis for digit in part.heads))
    assert len(heads) == 1


def test_attributes_that_no_condition_tests_together_do_not_multiply_cells() -> None:
    texts = [f"`n` > {i}" for i in range(200)] + [f"`d` < {i}" for i in range(200)] + [f"`m` > {i}" for i in range(200)]
    formulas = [read_predicate(text) for text in texts]
    cells = divided(formulas)
    assert len(cells.parts[0]) == 3
    assert sum(part.cells for part in cells.parts[0]) == 3 * 202  # an interval between constants each, and NULL


def test_a_member_flag_halves_the_fragments_of_the_constants_that_need_it() -> None:
    texts = [f"`b` AND `n` > {i}" for i in range(50)] + [f"NOT `b` AND `n` > {50 + i}" for i in range(50)]
    formulas = [read_predicate(text) for text in texts]
    [part] = divided(formulas).parts[0]
    assert part.fragments is not None
    assert len(part.fragments.words) == 100  # 50 for members, 50 for others, none for those that no condition takes


def test_constants_that_may_not_be_compared_exactly_stay_opaque() -> None:
    leaf = read_predicate("`w` > 123456789012345678901234567890")
    assert isinstance(leaf, Leaf)
    wide = {"`w`": Attribute("`w`", "decimal(38,10)", may_fail=False)}
    assert place(leaf, wide).axis.kind == "boolean"
    leaf = read_predicate("`s` > 5")
    assert isinstance(leaf, Leaf)
    assert place(leaf, ATTRIBUTES).axis.attribute.text == "`s` > 5"
