"""Lists what every aggregate function means; how each is called is in the language's signatures, by the same names."""

from __future__ import annotations

from typing import Final

from penstock.evaluate.functions.bound import AggregateFunction
from penstock.evaluate.functions.extremes import MAX, MIN
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

FUNCTIONS: Final[dict[str, AggregateFunction]] = {
    "count": COUNT,
    "sum": SUM,
    "avg": AVG,
    "min": MIN,
    "max": MAX,
    "var_pop": VAR_POP,
    "var_samp": VAR_SAMP,
    "stddev_pop": STDDEV_POP,
    "stddev_samp": STDDEV_SAMP,
    "skewness": SKEWNESS,
    "kurtosis": KURTOSIS,
    "median": PERCENTILE,
    "percentile": PERCENTILE,
    "mode": MODE,
    "top": TOP,
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
