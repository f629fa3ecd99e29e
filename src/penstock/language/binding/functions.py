"""Classifies a function by its name as scalar, aggregate or grouping, or refuses it and says why."""

from __future__ import annotations

from typing import Final, Literal

from penstock.errors import LanguageError, UnknownFunction, Unsupported, nearest
from penstock.language.binding.aggregate_signatures import SIGNATURES, Signature
from penstock.language.grammar.literals import word_set

Place = tuple[int, int]
FunctionKind = Literal["scalar", "aggregate", "grouping"]

SCALAR: Final = word_set(
    # mathematics
    """abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees e exp
    expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power
    radians rint round sec sign signum sin sinh sqrt tan tanh unhex width_bucket
    bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
    try_add try_divide try_mod try_multiply try_subtract
    """
    # strings
    """ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode elt encode
    endswith find_in_set format_number format_string initcap instr lcase left len length levenshtein locate lower lpad
    ltrim luhn_check mask octet_length overlay parse_url position printf quote regexp regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rpad rtrim
    sentences soundex space split split_part startswith substr substring substring_index to_binary to_char to_number
    to_varchar translate trim try_parse_url try_to_binary try_to_number ucase unbase64 upper url_decode url_encode
    try_url_decode is_valid_utf8 make_valid_utf8 validate_utf8 try_validate_utf8
    """
    # dates and times
    """add_months convert_timezone date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
    dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear from_unixtime from_utc_timestamp hour last_day
    make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval
    minute month monthname months_between next_day quarter second timestamp timestamp_micros timestamp_millis
    timestamp_seconds to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc
    try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_timestamp
    unix_date unix_micros unix_millis unix_seconds weekday weekofyear year
    """
    # conditions, nulls, types
    """coalesce equal_null if ifnull isnan isnotnull isnull nanvl nullif nullifzero nvl nvl2 zeroifnull
    bigint binary boolean decimal double float int smallint string tinyint typeof
    """
    # arrays, maps, structs
    """array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
    array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_union
    arrays_overlap arrays_zip array_sort cardinality element_at flatten get map map_concat map_contains_key map_entries
    map_from_arrays map_from_entries map_keys map_values named_struct size slice sort_array sequence str_to_map struct
    try_element_at
    """
    # hashes and JSON
    """crc32 hash md5 sha sha1 sha2 xxhash64
    get_json_object json_array_length json_object_keys schema_of_json from_json to_json
    """
    # sketches
    """hll_sketch_estimate hll_union theta_sketch_estimate theta_union theta_intersection theta_difference
    kll_sketch_get_n_double kll_sketch_get_quantile_double kll_sketch_get_rank_double
    """
)

AGGREGATES: Final = SIGNATURES.keys()
GROUPINGS: Final = word_set("grouping grouping_id")  # what tells the rows of one grouping set from those of another

# What Spark calls without parentheses too, where no column has that name.
NO_PARENTHESES: Final = word_set(
    "current_date current_path current_time current_timestamp current_user localtime session_user user"
)

NOT_YET: Final = word_set("count_min_sketch histogram_numeric hll_union_agg percentile_cont percentile_disc product")
_ELSEWHERE: Final = {  # what other databases call them
    "approx_quantile": "approx_percentile",
    "quantile": "percentile",
    "quantile_cont": "percentile",
    "group_concat": "listagg",
    "array_concat_agg": "collect_list",
}
_TIMES: Final = word_set(
    """curdate current_date current_time current_timestamp current_timezone localtime localtimestamp now
    unix_timestamp"""
)
_CHANCE: Final = word_set("rand randn random randstr shuffle uniform uuid")
_PLACE_OF_RUN: Final = word_set(
    """current_catalog current_database current_path current_schema current_user input_file_block_length
    input_file_block_start input_file_name monotonically_increasing_id session_user spark_partition_id user version"""
)
_UNSAFE: Final = word_set("assert_true java_method raise_error reflect try_reflect http_request read_files")
_ROWS: Final = word_set(
    """explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number session_window window
    window_time"""
)
_SHAPED: Final = word_set(
    """aggregate exists filter forall map_filter map_zip_with reduce transform transform_keys transform_values zip_with
    timestampadd timestampdiff"""
)


def signature_of(name: str) -> Signature:
    """Return how an aggregate is called, by any of its names."""
    return SIGNATURES[name.lower()]


def classify(name: str, text: str | None = None, place: Place | None = None) -> FunctionKind:
    """Say whether a function is scalar, an aggregate or one of grouping sets, or raise why it cannot be used."""
    lower = name.lower()
    if lower in AGGREGATES:
        return "aggregate"
    if lower in SCALAR:
        return "scalar"
    if lower in GROUPINGS:
        return "grouping"
    raise _refusal(name, lower, text, place)


def _refusal(name: str, lower: str, text: str | None, place: Place | None) -> LanguageError:
    """Build the error for a function that is not allowed."""
    for known, reason in _REASONS:
        if lower in known:
            hint = f"A column of that name stands in backquotes: `{lower}`." if lower == "current_path" else None
            return Unsupported(f"{lower}() is not available", text=text, place=place, detail=reason, hint=hint)
    if lower in NOT_YET:
        return Unsupported(f"{lower}() is not available yet", text=text, place=place, detail=_existing_aggregates())
    meant = _ELSEWHERE.get(lower)
    hint = f'Did you mean "{meant}"?' if meant else nearest(name, SCALAR | AGGREGATES)
    return UnknownFunction(f'there is no function "{name}"', text=text, place=place, hint=hint)


def _existing_aggregates() -> str:
    """List the aggregates that exist, one name each."""
    return "existing aggregates: " + ", ".join(sorted({signature.name for signature in SIGNATURES.values()}))


_REASONS: Final = (
    (_TIMES, "it depends on when it runs; a window's time is window_start and window_end"),
    (_CHANCE, "it gives another value each time, so an answer could not be computed again"),
    (_PLACE_OF_RUN, "it depends on where and by whom it runs, not on the row"),
    (_UNSAFE, "it reaches outside the row"),
    (_ROWS, "it does not give one value per row"),
    (_SHAPED, "it takes more than values as arguments"),
)
