"""Rewrites the SELECT of a bound query with another window or other options, for ALTER QUERY."""

from __future__ import annotations

from penstock.errors import Unsupported
from penstock.language.grammar.dialect import WindowClause
from penstock.language.grammar.parse import parse_query
from penstock.language.options import OptionClause
from penstock.language.statements import Select
from penstock.model.query import Query


def with_window(query: Query, window: WindowClause) -> Select:
    """Put another window in a query's place."""
    if query.start_aligned:
        what = "SET WINDOW for a query with GROUP BY window(…) is not available"
        raise Unsupported(what, hint="Write ALTER QUERY name AS SELECT … with the other window.")
    select = parse_query(query.text)
    select.expression.args["from_"].this.meta["window"] = window
    return parse_query(str(select))


def with_options(query: Query, options: tuple[OptionClause, ...]) -> Select:
    """Set options of a query; the others stay, but for how long answers are revised if they are no longer."""
    select = parse_query(query.text)
    set_now = {option.name for option in options}
    if any(option.name == "late" and str(option.value).lower() == "count" for option in options):
        set_now.add("revise_for")
    kept = tuple(option for option in select.options if option.name not in set_now)
    return parse_query(str(Select(select.expression, select.text, (*kept, *options))))
