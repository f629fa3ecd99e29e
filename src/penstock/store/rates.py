"""Keeps the rates that were calibrated, and speeds measured in the background, with the machine they hold for."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from penstock.errors import StateError
from penstock.model.cache_folder import cache_folder
from penstock.model.switches import is_off
from penstock.share.weave.costs import Rates

SWITCH: Final = "PENSTOCK_CALIBRATION"  # "off": nothing is measured in the background, nor taken from there


def rates_file() -> Path:
    """Return where rates are kept: in the user's folder, or in the one that PENSTOCK_HOME names."""
    home = os.environ.get("PENSTOCK_HOME")
    return (Path(home) if home else Path.home() / ".penstock") / "rates.json"


def speeds_file() -> Path:
    """Return where the speeds measured in the background are kept: they can be made again."""
    return cache_folder() / "speeds.json"


def background_is_off() -> bool:
    """Tell whether nothing is to be measured in the background."""
    return is_off(SWITCH)


def this_machine() -> dict[str, Any]:
    """Describe what rates depend on."""
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "node": platform.node()}


def calibrated_rates(path: Path | None = None) -> Rates | None:
    """Return the rates that were calibrated on this machine, if they were; those that an older file lacks are usual."""
    kept = _kept(path or rates_file(), "rates")
    if kept is None:
        return None
    known = [f.name for f in fields(Rates) if f.name in kept]
    return Rates(**{name: kept[name] for name in known}) if "partial" in known else None


def kept_speeds() -> Mapping[str, float] | None:
    """Return the seconds that pieces of work were measured to take on this machine, if they were."""
    return None if background_is_off() else _kept(speeds_file(), "seconds")


def keep_rates(rates: Rates, path: Path | None = None) -> Path:
    """Write rates down for this machine; return the file."""
    return _keep(path or rates_file(), "rates", asdict(rates), "Name another folder in PENSTOCK_HOME.")


def keep_speeds(seconds: Mapping[str, float]) -> Path:
    """Write down for this machine how long pieces of work take; return the file."""
    return _keep(speeds_file(), "seconds", dict(seconds), "Name another folder in XDG_CACHE_HOME.")


def _kept(path: Path, what: str) -> dict[str, float] | None:
    """Read numbers by name, if the file is there and of this machine."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        found = {str(name): float(value) for name, value in kept[what].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if kept.get("machine") == this_machine() else None


def _keep(path: Path, what: str, numbers: Mapping[str, float], hint: str) -> Path:
    """Write numbers with the machine, whole or not at all."""
    text = json.dumps({"machine": this_machine(), what: dict(numbers)}, indent=1) + "\n"
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}", hint=hint) from None
    return path
