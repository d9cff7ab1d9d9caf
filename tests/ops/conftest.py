"""Fixtures for tests of operation: a data folder per test."""

from tests.app.conftest import own_data, printed, ridgeline

__all__ = ["own_data", "printed", "ridgeline"]
