"""Addresses of earlier releases set the current controls."""

from __future__ import annotations

import pytest

from tests.app.pages import opened, shown

OPEN = "open loop (arrival rate)"
KINDS = ("text_input", "selectbox", "multiselect", "toggle", "segmented_control")


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("old", "controls"),
    [
        ({"plan_hits": "60", "plan_lora_rank": "16"}, {"prefix_hits": "0.6", "lora_rank": "16"}),
        ({"plan_rent_h100": "2.5", "plan_rent_mi300x": "2"}, {"price": "h100=2.5,mi300x=2"}),
    ],
)
def test_a_value_of_an_old_key_stands_in_the_control_of_its_parameter(old, controls):
    page = shown(**old)
    assert {name: page.session_state[name] for name in controls} == controls
    assert not set(old) & set(page.query_params)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("page", "old", "controls"),
    [
        ("serving", {"serving_tab": "Simulate", "sim_users": "24"}, {"load_box": "24 users"}),
        ("serving", {"serving_users": "24"}, {"load_box": "24 users"}),
        ("serving", {"serving_loop": OPEN, "serving_rate": "2.5"}, {"load_box": "2.5/s"}),
        ("overview", {"asked": "Under load", "batch": "64"}, {"load_box": "64 users"}),
        ("overview", {"asked": "Static batch"}, {"load_box": "batch 1"}),
        ("plan", {"plan_rate": "20.0", "plan_confidence": "90.0"},
         {"load_box": "20.0/s", "confidence": "0.9"}),
        ("plan", {"plan_load": "Open requests", "plan_users": "64"},
         {"load_box": "64 users"}),
        ("serving", {"serving_tab": "Simulate", "sim_traffic": "Trace file"},
         {"load_box": "trace"}),
        ("chip_lab", {"sensitivity_load": "users under load"},
         {"load_box": "16 users"}),
        ("plan", {"plan_ttft": "500.0", "plan_statistic": "p95", "plan_usd_per_mtok": "0.4"},
         {"targets_box": "ttft_p95 < 500.0ms, tpot_p95 < 30ms, usd_per_mtok < 0.4"}),
        ("plan", {"plan_tpot": "0.0"}, {"targets_box": ""}),
        ("plan", {"plan_e2e": "9.5", "plan_tpot": "0", "plan_targets": "devices < 8"},
         {"targets_box": "e2e < 9.5s, devices < 8"}),
        ("plan", {"plan_systems": "h100-sxm5-80gb,h200-sxm-141gb", "plan_engines": "vllm",
                  "plan_drafts": "ngram", "plan_devices": "1:4"},
         {"systems": ["h100-sxm5-80gb", "h200-sxm-141gb"], "engines": ["vllm"],
          "drafts": ["ngram"], "devices": "1:4"}),
        ("plan", {"plan_kinds": "disaggregated", "plan_cross_systems": "true",
                  "plan_devices": "1:2", "plan_rank": "devices", "plan_top": "3"},
         {"pools": ["disaggregated"], "cross_systems": True, "rank": "devices", "top": "3"}),
        ("plan", {"plan_simulate": "true", "plan_pays": "true", "plan_devices": "1:2"},
         {"simulate": True, "break_even": True}),
        ("compare", {"compare": "h200-sxm-141gb", "frontier_devices": "2",
                       "frontier_targets": "tpot < 20ms", "frontier_engines": "vllm"},
         {"systems": ["h200-sxm-141gb"], "devices": "1:2", "targets_box": "tpot < 20ms",
          "engines": ["vllm"]}),
        ("chip_lab", {"part": "Sensitivity", "sensitivity_change": "20"}, {"change": "20"}),
        ("chip_lab", {"sensitivity_tab": "Needed hardware", "sensitivity_targets": "tpot < 9ms"},
         {"targets_box": "tpot < 9ms", "part": "Needed hardware"}),
        ("compare", {"compare_by": "Engines", "compare_tab": "Memory"},
         {"compare_by": "Engines", "part": "Memory"}),
        ("compare", {"compare_by": "Pinned"}, {"part": "Pinned"}),
        ("measure", {"part": "Beside its prediction"}, {"part": "Measured and predicted"}),
    ],
)  # fmt: skip
def test_a_page_asks_what_an_old_link_asked_of_it(page, old, controls):
    app = opened(page, **old)
    assert not app.exception and not app.error
    drawn = {each.key: each.value for kind in KINDS for each in app.get(kind)}
    assert {name: drawn[name] for name in controls} == controls
    kept = {"part"}
    assert not (set(old) - kept - set(controls)) & set(app.query_params)
