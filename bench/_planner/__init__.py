"""Holds the workloads and live runs of the planner's benchmark."""
