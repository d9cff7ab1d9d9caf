"""Every test of measuring runs PyTorch with a data folder of its own and on free cores."""

import pytest

from tests.model_registry.finding.conftest import offline_cache

__all__ = ["offline_cache"]


@pytest.fixture(autouse=True)
def _on_this_machine(torch_threads: None, own_data: object, free_cores: None) -> None:
    pass
