"""Fixtures for tests of operation: a data folder per test."""

from tests.app.conftest import no_wait_for_a_style, own_data, printed, ridgeline

__all__ = ["no_wait_for_a_style", "own_data", "printed", "ridgeline"]
