"""Measures what each step of the engine costs on this machine."""

from penstock.calibrate.measuring import Calibration, calibrate, let_come

__all__ = ["Calibration", "calibrate", "let_come"]
