"""Lists what every aggregate function means; how each is called is in the language's signatures, by the same names."""

from __future__ import annotations

from typing import Final

from penstock.evaluate.functions.bound import AggregateFunction
from penstock.evaluate.functions.collected import COLLECT_LIST, COLLECT_SET, LISTAGG
from penstock.evaluate.functions.extremes import BIT_AND, BIT_OR, BIT_XOR, MAX, MIN
from penstock.evaluate.functions.pairs import (
    CORR,
    COVAR_POP,
    COVAR_SAMP,
    REGR_AVGX,
    REGR_AVGY,
    REGR_COUNT,
    REGR_INTERCEPT,
    REGR_R2,
    REGR_SLOPE,
    REGR_SXX,
    REGR_SXY,
    REGR_SYY,
)
from penstock.evaluate.functions.picked import ARG_MAX, ARG_MIN, FIRST, LAST
from penstock.evaluate.functions.shape import KURTOSIS, SKEWNESS
from penstock.evaluate.functions.sketched import (
    APPROX_COUNT_DISTINCT,
    APPROX_PERCENTILE,
    APPROX_TOP_K,
    HLL_SKETCH_AGG,
    KLL_SKETCH_AGG_DOUBLE,
    THETA_SKETCH_AGG,
)
from penstock.evaluate.functions.spread import STDDEV_POP, STDDEV_SAMP, VAR_POP, VAR_SAMP
from penstock.evaluate.functions.sums import AVG, COUNT, SUM
from penstock.evaluate.functions.tabled import MODE, PERCENTILE, TOP
from penstock.evaluate.functions.tried import TRY_AVG, TRY_SUM
from penstock.evaluate.functions.truths import BOOL_AND, BOOL_OR, COUNT_IF

FUNCTIONS: Final[dict[str, AggregateFunction]] = {
    "count": COUNT,
    "count_if": COUNT_IF,
    "sum": SUM,
    "try_sum": TRY_SUM,
    "avg": AVG,
    "try_avg": TRY_AVG,
    "min": MIN,
    "max": MAX,
    "bool_and": BOOL_AND,
    "bool_or": BOOL_OR,
    "bit_and": BIT_AND,
    "bit_or": BIT_OR,
    "bit_xor": BIT_XOR,
    "var_pop": VAR_POP,
    "var_samp": VAR_SAMP,
    "stddev_pop": STDDEV_POP,
    "stddev_samp": STDDEV_SAMP,
    "skewness": SKEWNESS,
    "kurtosis": KURTOSIS,
    "covar_pop": COVAR_POP,
    "covar_samp": COVAR_SAMP,
    "corr": CORR,
    "regr_count": REGR_COUNT,
    "regr_avgx": REGR_AVGX,
    "regr_avgy": REGR_AVGY,
    "regr_sxx": REGR_SXX,
    "regr_syy": REGR_SYY,
    "regr_sxy": REGR_SXY,
    "regr_slope": REGR_SLOPE,
    "regr_intercept": REGR_INTERCEPT,
    "regr_r2": REGR_R2,
    "median": PERCENTILE,
    "percentile": PERCENTILE,
    "mode": MODE,
    "top": TOP,
    "collect_list": COLLECT_LIST,
    "collect_set": COLLECT_SET,
    "listagg": LISTAGG,
    "first": FIRST,
    "last": LAST,
    "arg_min": ARG_MIN,
    "arg_max": ARG_MAX,
    "approx_count_distinct": APPROX_COUNT_DISTINCT,
    "approx_percentile": APPROX_PERCENTILE,
    "approx_top_k": APPROX_TOP_K,
    "hll_sketch_agg": HLL_SKETCH_AGG,
    "theta_sketch_agg": THETA_SKETCH_AGG,
    "kll_sketch_agg_double": KLL_SKETCH_AGG_DOUBLE,
}
