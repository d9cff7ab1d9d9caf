"""Fixtures of operation: a data folder of the test's own."""

from tests.app.conftest import own_data, printed, ridgeline

__all__ = ["own_data", "printed", "ridgeline"]
