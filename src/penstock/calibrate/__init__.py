"""A number of rows comes in; what each step of this engine costs on this machine goes out."""

from penstock.calibrate.measuring import Calibration, calibrate, let_come

__all__ = ["Calibration", "calibrate", "let_come"]
