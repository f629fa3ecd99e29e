"""Penstock runs hundreds of continuous SQL queries over shared streams as one Spark pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "CallbackSink",
    "DeltaSink",
    "Engine",
    "JsonLinesSink",
    "Market",
    "MemorySink",
    "ParquetSink",
    "PenstockError",
    "PostgresSink",
    "SinkBatch",
    "TerminalSink",
    "WebhookSink",
    "__version__",
    "aggregate",
    "function",
    "sink",
    "write_trades",
]

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.errors import PenstockError
    from penstock.language.functions.python_aggregates import aggregate
    from penstock.language.functions.python_functions import function
    from penstock.sinks.callback import CallbackSink, SinkBatch, sink
    from penstock.sinks.delta.sink import DeltaSink
    from penstock.sinks.jsonl import JsonLinesSink
    from penstock.sinks.memory import MemorySink
    from penstock.sinks.parquet import ParquetSink
    from penstock.sinks.postgres.sink import PostgresSink
    from penstock.sinks.terminal import TerminalSink
    from penstock.sinks.webhook.sink import WebhookSink
    from penstock.sources.trades import Market
    from penstock.spark.market import write_trades

_PLACES = {
    "CallbackSink": "penstock.sinks.callback",
    "DeltaSink": "penstock.sinks.delta.sink",
    "Engine": "penstock.engine",
    "JsonLinesSink": "penstock.sinks.jsonl",
    "Market": "penstock.sources.trades",
    "MemorySink": "penstock.sinks.memory",
    "ParquetSink": "penstock.sinks.parquet",
    "PenstockError": "penstock.errors",
    "PostgresSink": "penstock.sinks.postgres.sink",
    "SinkBatch": "penstock.sinks.callback",
    "TerminalSink": "penstock.sinks.terminal",
    "WebhookSink": "penstock.sinks.webhook.sink",
    "aggregate": "penstock.language.functions.python_aggregates",
    "function": "penstock.language.functions.python_functions",
    "sink": "penstock.sinks.callback",
    "write_trades": "penstock.spark.market",
}


def __getattr__(name: str) -> Any:
    """Import the surface on first use: the command line answers ``--help`` without loading Spark."""
    if name not in _PLACES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    """List the surface: what is imported on first use is there too, and what only this file needs is not."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
