"""Fit of the latency profiles to measured operator tables: `python -m hardware_db.fit --help`."""
