"""Keeps streams within a cap of the driver's memory, stage by stage."""
