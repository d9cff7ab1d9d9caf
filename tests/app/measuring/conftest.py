"""Every test of measuring runs PyTorch with a data folder of its own and on free cores."""

import pytest


@pytest.fixture(autouse=True)
def _on_this_machine(torch_threads: None, own_data: object, free_cores: None) -> None:
    pass
