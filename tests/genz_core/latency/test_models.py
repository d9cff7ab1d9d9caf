"""The registry of latency models: a formula with an equation for every kind in both phases."""

from __future__ import annotations

import re
from itertools import product

import pytest

from genz_core.common.registry import KINDS
from genz_core.errors import InvalidValue
from genz_core.latency.models import PHASES, depends_on_phase, latency_model, prices
from tests.genz_core.operator_cases import OF_SEQUENCES
from tests.rules import for_every


@for_every(product(KINDS, PHASES))
def test_every_kind_has_a_formula_whose_docstring_states_the_equation(kind, phase):
    equation = latency_model(kind, phase).formula.__doc__
    assert re.search(r"T += (launch|base) \+", equation)


def test_a_second_model_of_a_kind_in_a_phase_is_refused():
    model = latency_model("norm", "decode")
    with pytest.raises(InvalidValue, match="latency model 'norm in prefill' is registered twice"):
        prices("norm", formula=model.formula, key=model.key)(model.arguments)


def test_prefill_and_decode_have_models_of_their_own_where_sequences_grow():
    apart = {kind for kind in KINDS if depends_on_phase(kind)}
    assert apart == set(OF_SEQUENCES)
