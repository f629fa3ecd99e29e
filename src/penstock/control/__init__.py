"""Lets other processes talk to a running engine through its state folder."""

from __future__ import annotations

from penstock.control.asking import StillAtWork, ask_running

__all__ = ["StillAtWork", "ask_running"]
