"""Tests of measuring run PyTorch with their own data folder and idle cores."""

import pytest

from tests.model_registry.finding.conftest import offline_cache

__all__ = ["offline_cache"]


@pytest.fixture(autouse=True)
def _on_this_machine(torch_threads: None, own_data: object, free_cores: None) -> None:
    pass
