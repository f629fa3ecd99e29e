"""Lets other processes talk to a running engine through its state folder."""

from __future__ import annotations

from penstock.control.asking import ask_running

__all__ = ["ask_running"]
