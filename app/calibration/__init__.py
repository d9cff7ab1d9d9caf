"""Fit constants to this machine, to profiler reports, or to runs of an engine."""
