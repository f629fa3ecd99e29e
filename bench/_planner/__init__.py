"""Workloads and live runs of the planner's benchmark."""
