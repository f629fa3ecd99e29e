"""Lists the aggregates by each of their names, and how each is called.

What a call means is in :mod:`penstock.evaluate.functions.registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

# How the arguments of a call are read: as counted here, as any number of them, with the number of items before, with a
# weight after the constants, with the row's order and FALSE or TRUE, or with the row's order and a text.
Form = Literal["usual", "count", "top", "weighed", "ordered", "collected"]
Constant = Literal["percentages", "accuracy", "deviation", "items", "tracked", "lg_k", "lg_nominal", "k", "delimiter"]


@dataclass(frozen=True, slots=True)
class Signature:
    """How one aggregate is called."""

    name: str
    synonyms: tuple[str, ...] = ()
    values: int = 1  # arguments that are computed of rows
    constants: tuple[Constant, ...] = ()  # what the ones after them are
    form: Form = "usual"
    distinct: bool = False  # takes DISTINCT
    same_distinct: bool = False  # means the same with and without it
    deciding: int = 0  # the argument that decides whether a row counts


_LISTED: Final = (
    Signature("count", form="count", distinct=True),
    Signature("count_if"),
    Signature("sum", distinct=True),
    Signature("try_sum", distinct=True),
    Signature("avg", ("mean",), distinct=True),
    Signature("try_avg", distinct=True),
    Signature("min", distinct=True, same_distinct=True),
    Signature("max", distinct=True, same_distinct=True),
    Signature("bool_and", ("every",), distinct=True, same_distinct=True),
    Signature("bool_or", ("any", "some"), distinct=True, same_distinct=True),
    Signature("bit_and", distinct=True, same_distinct=True),
    Signature("bit_or", distinct=True, same_distinct=True),
    Signature("bit_xor"),
    Signature("var_pop"),
    Signature("var_samp", ("variance",)),
    Signature("stddev_pop"),
    Signature("stddev_samp", ("stddev", "std")),
    Signature("skewness"),
    Signature("kurtosis"),
    Signature("covar_pop", values=2),
    Signature("covar_samp", values=2),
    Signature("corr", values=2),
    Signature("regr_count", values=2),
    Signature("regr_avgx", values=2),
    Signature("regr_avgy", values=2),
    Signature("regr_sxx", values=2),
    Signature("regr_syy", values=2),
    Signature("regr_sxy", values=2),
    Signature("regr_slope", values=2),
    Signature("regr_intercept", values=2),
    Signature("regr_r2", values=2),
    Signature("median"),
    Signature("percentile", constants=("percentages",), form="weighed"),
    Signature("mode"),
    Signature("top", form="top", deciding=1),
    Signature("collect_list", ("array_agg",), form="collected", distinct=True),
    Signature("collect_set", distinct=True, same_distinct=True),
    Signature("listagg", ("string_agg",), constants=("delimiter",), form="collected", distinct=True),
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
