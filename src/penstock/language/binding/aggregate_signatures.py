"""Lists the aggregates by each of their names, and how each is called.

What a call means is in :mod:`penstock.evaluate.functions.registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

# How the arguments of a call are read: as counted here, as any number of them, with the number of items before, with a
# weight after the constants, or with the row's order.
Form = Literal["usual", "count", "top", "weighed", "ordered"]
Constant = Literal["percentages", "accuracy", "deviation", "items", "tracked", "lg_k", "lg_nominal", "k"]


@dataclass(frozen=True, slots=True)
class Signature:
    """How one aggregate is called."""

    name: str
    synonyms: tuple[str, ...] = ()
    values: int = 1  # arguments that are computed of rows
    constants: tuple[Constant, ...] = ()  # what the ones after them are
    form: Form = "usual"
    distinct: bool = False  # takes DISTINCT
    deciding: int = 0  # the argument that decides whether a row counts


_LISTED: Final = (
    Signature("count", form="count", distinct=True),
    Signature("sum", distinct=True),
    Signature("avg", ("mean",), distinct=True),
    Signature("min", distinct=True),
    Signature("max", distinct=True),
    Signature("var_pop"),
    Signature("var_samp", ("variance",)),
    Signature("stddev_pop"),
    Signature("stddev_samp", ("stddev", "std")),
    Signature("skewness"),
    Signature("kurtosis"),
    Signature("median"),
    Signature("percentile", constants=("percentages",), form="weighed"),
    Signature("mode"),
    Signature("top", form="top", deciding=1),
    Signature("first", ("first_value", "any_value"), form="ordered"),
    Signature("last", ("last_value",), form="ordered"),
    Signature("arg_min", ("min_by",), values=2, deciding=1),
    Signature("arg_max", ("max_by",), values=2, deciding=1),
    Signature("approx_count_distinct", constants=("deviation",)),
    Signature("approx_percentile", ("percentile_approx",), constants=("percentages", "accuracy")),
    Signature("approx_top_k", constants=("items", "tracked")),
    Signature("hll_sketch_agg", constants=("lg_k",)),
    Signature("theta_sketch_agg", constants=("lg_nominal",)),
    Signature("kll_sketch_agg_double", constants=("k",)),
)
SIGNATURES: Final = {name: one for one in _LISTED for name in (one.name, *one.synonyms)}
