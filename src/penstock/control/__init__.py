"""Talking to a running engine: requests of other processes come in through its state folder, answers go out."""

from __future__ import annotations

from penstock.control.asking import ask_running

__all__ = ["ask_running"]
