"""The parts of eager execution, measured on this machine."""

from __future__ import annotations

import pytest

from genz_core.eager import kernel_s


@pytest.mark.slow
def test_facts_are_measured_on_this_machine() -> None:
    from profilers.collect.eager_pieces import measure_eager
    from profilers.collect.measured_model import pick_device

    facts = measure_eager(pick_device("cpu"), 2e10)
    assert 0 < kernel_s(facts) < facts.host_layer_s
    assert facts.norm_passes > facts.append_passes >= 1.0
    assert facts.expand_groups == 1.0
