"""Addresses of earlier releases put their values into the controls of today."""

from __future__ import annotations

import pytest

from tests.app.pages import shown


@pytest.mark.parametrize(
    ("old", "controls"),
    [
        ({"sim_users": "24"}, {"concurrency": "24"}),
        ({"plan_hits": "60", "plan_lora_rank": "16"}, {"prefix_hits": "0.6", "lora_rank": "16"}),
        ({"plan_rent_h100": "2.5", "plan_rent_mi300x": "2"}, {"price": "h100=2.5,mi300x=2"}),
    ],
)
def test_a_value_of_an_old_key_stands_in_the_control_of_its_parameter(old, controls):
    page = shown(**old)
    assert {name: page.session_state[name] for name in controls} == controls
    assert not set(old) & set(page.query_params)
