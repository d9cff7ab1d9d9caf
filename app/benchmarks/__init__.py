"""Benchmark results and their predictions: comparison, verdict, replay, and calibration."""
