"""Keeps the rates that calibration measured, with the machine they hold for."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from penstock.errors import StateError
from penstock.share.weave.costs import DEFAULT_RATES, Rates


def rates_file() -> Path:
    """Return where rates are kept: in the user's folder, or in the one that PENSTOCK_HOME names."""
    home = os.environ.get("PENSTOCK_HOME")
    return (Path(home) if home else Path.home() / ".penstock") / "rates.json"


def this_machine() -> dict[str, Any]:
    """Describe what rates depend on."""
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "node": platform.node()}


def stored_rates(path: Path | None = None) -> Rates:
    """Return the rates of this machine, or the usual ones where none were measured on it."""
    try:
        kept = json.loads((path or rates_file()).read_text(encoding="utf-8"))
        measured = {f.name: float(kept["rates"][f.name]) for f in fields(Rates)}
    except (OSError, ValueError, KeyError, TypeError):
        return DEFAULT_RATES
    return Rates(**measured) if kept.get("machine") == this_machine() else DEFAULT_RATES


def keep_rates(rates: Rates, path: Path | None = None) -> Path:
    """Write rates down for this machine; return the file."""
    path = path or rates_file()
    text = json.dumps({"machine": this_machine(), "rates": asdict(rates)}, indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "Name another folder in PENSTOCK_HOME."
        raise StateError(f"cannot write {path}: {error.strerror}", hint=hint) from None
    return path
