"""Decides which continuous queries of a stream leave the shared pass, and remembers what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.catalog import Catalog
from penstock.errors import StateError
from penstock.evaluate.typed import Definition
from penstock.model.derived import FED
from penstock.model.function import Function
from penstock.model.schema import Column, Stream
from penstock.share.operators.calls import StaysInPass
from penstock.share.operators.operated import OperatedQuery, calls_any, column_types, expensive_functions, operated

HAS_A_WINDOW = "it has a window, which would have to wait (CREATE STREAM of its rows, and a window over that, does)"
IS_FED = "its stream is made of other streams"


class Gates:
    """The queries of one stream that call expensive functions: those that are divided, and why others are not."""

    def __init__(self, stream: Stream, catalog: Catalog, doubtful: Sequence[Column], refusal: str | None) -> None:
        """Look at a stream's queries; with a ``refusal`` none of them leaves the pass."""
        self.stream, self.catalog = stream, catalog
        self.doubtful = frozenset(column.name for column in doubtful)
        self.refusal = IS_FED if stream.format in FED else refusal
        self.staying: dict[int, str] = {}  # queries that call expensive functions in the pass, and why
        self._known: dict[tuple[int, tuple[str, ...]], OperatedQuery | str] = {}

    def divided(self, definitions: Iterable[Definition]) -> dict[int, OperatedQuery]:
        """Return the queries that leave the pass, by definition."""
        found, staying = dict[int, OperatedQuery](), dict[int, str]()
        marked = expensive_functions(self.catalog.python_functions())
        for one in definitions if marked else ():
            if not calls_any(one, marked):
                continue
            divided = self._divided(one, marked)
            if isinstance(divided, str):
                staying[one.id] = divided
            else:
                found[one.id] = divided
        self.staying = staying
        return found

    def queued(self, number: int, expensive: Sequence[str]) -> OperatedQuery | None:
        """Return a query as its rows were queued, with these functions as operators; None: nobody knows it any more."""
        code = {one.pinned: one for one in self.catalog.python_functions()}
        definition = self.catalog.edition(number)
        if definition is None or not self.catalog.has("query", definition.name):
            return None
        found = self._divided(definition, {name: code[name] for name in expensive}, always=True)
        if isinstance(found, str):
            what = f'rows of query "{definition.name}" wait for operators that cannot be run any more: {found}'
            raise StateError(what, hint="Drop the query, or undo what was changed of the tables that it joins.")
        return found

    def can_leave(self, definitions: Iterable[Definition], function: Function) -> bool:
        """Tell whether some query could be divided if a function were expensive, too."""
        marked = expensive_functions(self.catalog.python_functions()) | {function.pinned: function}
        mine = (one for one in definitions if calls_any(one, {function.pinned: function}))
        return any(isinstance(self._divided(one, marked), OperatedQuery) for one in mine)

    def operators(self) -> set[str]:
        """Name the operators of all queries that were divided."""
        return {name for one in self._known.values() if isinstance(one, OperatedQuery) for name in one.operators}

    def _divided(
        self, definition: Definition, expensive: Mapping[str, Function], *, always: bool = False
    ) -> OperatedQuery | str:
        """Divide a query, or say why it stays; what was queued once is taken on, whatever holds now."""
        if not always and (reason := self._refused(definition)) is not None:
            return reason
        key = definition.id, tuple(sorted(expensive))
        if key not in self._known:
            types = column_types(self.stream, definition, self.catalog.tables())
            try:
                self._known[key] = operated(definition, expensive, types, self.doubtful)
            except StaysInPass as reason:
                self._known[key] = str(reason)
        return self._known[key]

    def _refused(self, definition: Definition) -> str | None:
        """Say why no query of a kind leaves the pass."""
        return HAS_A_WINDOW if self.refusal is None and not definition.query.is_continuous else self.refusal
