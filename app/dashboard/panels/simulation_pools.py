"""Fields of the tab Simulate for drafted tokens and for a pool that reads the prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard.sidebar import DEGREES, PRECISIONS
from app.scenario.drafting import DRAFT_TOKENS, METHODS, Drafting
from app.simulation.disaggregation import PrefillPool
from genz_core.limits import LIMITS, checked_size
from model_registry.finding.loading import names as model_names

NONE, SAME = "none", "as decode"
_DRAFTS_HELP = """
Each step verifies a few drafted tokens and keeps those that the model would have written itself.
How many decides what it gains: where no acceptance is stated, the mean of published measurements
on coding prompts stands in, and a note below the result says so.

**mtp**: the model's own module; **eagle**: an EAGLE-3 head; **draft_model**: a smaller model;
**ngram**: what the prompt and the answer repeat.
"""
_POOL_HELP = """
Workers of their own read the prompts and send the cache on; what the sidebar describes, times the
replicas, then writes the answers. The note below the result says how many of each match.
"""


def draft_fields() -> dict[str, Any]:
    """Draw how tokens are drafted; returns the fields of `Drafting`, none for none."""
    with (
        st.expander("Speculative decoding", icon=":material/fast_forward:", key="sim_drafts_open"),
        st.grid(4, min_column_width=150),
    ):
        method = st.selectbox(
            "Drafts from", [NONE, *METHODS], key="sim_speculation", bind="query-params",
            help=_DRAFTS_HELP,
        )  # fmt: skip
        limit = LIMITS["draft_tokens"]
        tokens = st.number_input(
            "Draft tokens", limit.least, limit.most, DRAFT_TOKENS, key="sim_draft_tokens",
            bind="query-params", help="That a step verifies.",
        )  # fmt: skip
        acceptance = st.text_input(
            "Acceptance", key="sim_acceptance", bind="query-params", placeholder="measured",
            help="One share, of a token given that those before it were accepted (0.8), or one "
            "for each position (0.9,0.7,0.5). Empty: as measured.",
        )  # fmt: skip
        model = st.selectbox(
            "Draft model", model_names(), index=None, key="sim_draft_model", bind="query-params",
            accept_new_options=True, placeholder="none", help="Where a model of its own drafts.",
        )  # fmt: skip
    if method == NONE:
        return {}
    drafts = {"draft_model": str(model or "")} if method == "draft_model" else {}
    return {
        "speculation": str(method), "draft_tokens": int(tokens), "acceptance": acceptance, **drafts,
    }  # fmt: skip


def pool_fields() -> dict[str, Any]:
    """Draw who reads the prompts; returns the fields of `PrefillPool`, none for no pool."""
    with (
        st.expander("Prefill pool", icon=":material/call_split:", key="sim_pool_open"),
        st.grid(5, min_column_width=130),
    ):
        workers = st.number_input(
            "Workers", 0, LIMITS["prefill_workers"].most, 0, key="sim_prefill_workers",
            bind="query-params", help=_POOL_HELP,
        )  # fmt: skip
        fields = {"prefill_workers": int(workers), **_worker(), **_transfer()}
    return fields if workers else {}


def _worker() -> dict[str, Any]:
    """Draw what one prefill worker is."""
    system = st.selectbox(
        "System", [SAME, *hardware_db.names()], key="sim_prefill_system", bind="query-params",
        accept_new_options=True,
    )  # fmt: skip
    degrees = {
        f"prefill_{name}": st.selectbox(
            name.upper(), DEGREES, key=f"sim_prefill_{name}", bind="query-params",
            accept_new_options=True,
        )
        for name in ("tp", "pp", "dp", "ep")
    }  # fmt: skip
    weights = st.selectbox(
        "Weights", (SAME, *PRECISIONS), key="sim_prefill_weights", bind="query-params",
        accept_new_options=True,
    )  # fmt: skip
    return {
        "prefill_system": "" if system == SAME else str(system),
        "prefill_weights": "" if weights == SAME else str(weights),
        **degrees,
    }


def _transfer() -> dict[str, Any]:
    """Draw the way of the cache."""
    rate = st.number_input(
        "Transfer [Gbit/s]", 0.0, 1e6, 0.0, key="sim_transfer_gbps", bind="query-params",
        format="%.4g", help="Of a device, in one direction; 0: the link that the systems state.",
    )  # fmt: skip
    latency = st.number_input(
        "Transfer latency [µs]", 0.0, 1e9, None, key="sim_transfer_latency_us",
        bind="query-params", format="%.4g", placeholder="of the link",
        help="Of each prompt, on top.",
    )  # fmt: skip
    layer_wise = st.toggle(
        "Layer by layer", key="sim_layer_wise", bind="query-params",
        help="A layer's cache is sent while later layers are computed.",
    )  # fmt: skip
    return {"transfer_gbps": rate, "transfer_latency_us": latency, "layer_wise": layer_wise}


def pools(drafts: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Settings` that were drawn.

    Raises:
        InvalidValue: as `Drafting` and `PrefillPool`.
    """
    degrees = {
        f"prefill_{name}": checked_size(name, pool[f"prefill_{name}"], f"prefill {name.upper()}")
        for name in ("tp", "pp", "dp", "ep")
        if pool
    }
    return {"drafting": Drafting(**drafts), "prefill": PrefillPool(**{**pool, **degrees})}
