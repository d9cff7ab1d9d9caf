"""Cached models, estimates and sweeps by setup, so that a page costs nothing to revisit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import streamlit as st

import hardware_db
from app.model_inside import builder_and_trace
from app.scenario import setup as setups
from app.scenario.levers import levers as levers_of
from app.scenario.levers import with_eight_bits
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.setup import Setup
from genz_core import Estimate
from genz_core.types import Model
from hardware_db import data_folder


@st.cache_resource(max_entries=64, show_spinner=False)
def model_of(name: str, config: str, precisions: tuple[tuple[str, str], ...]) -> Model:
    """As `app.scenario.setup.model_of`."""
    return setups.model_of(name, config, precisions)


@st.cache_resource(max_entries=64, show_spinner=False)
def resolved(setup: Setup) -> Resolved:
    """Model, system and engine of a setup; see `app.scenario.setup.resolve_setup`."""
    s = setup.scenario
    model = model_of(s.model, setup.model_config, tuple(s.precisions.items()))
    return setups.resolve_setup(setup, model)


@st.cache_resource(max_entries=64, show_spinner=False)
def priced(setup: Setup) -> Estimate:
    """The estimate of a setup, one configuration.

    Raises:
        RidgelineError: as `resolved`, and degrees or sizes that cannot be.
    """
    return estimate_resolved(resolved(setup))


@st.cache_resource(max_entries=32, show_spinner=False)
def swept(setup: Setup, axis: str, values: tuple[int, ...]) -> Estimate:
    """The estimate of a setup with `axis` ("batch" or "isl") running over `values`."""
    return estimate_resolved(resolved(setup), **{axis: np.array(values, dtype=float)})


@st.cache_data(max_entries=256, show_spinner=False)
def levers(setup: Setup) -> dict[str, list[tuple[str, float]]]:
    """Share of each phase's latency that single changes save; see `app.scenario.levers`."""
    eight = with_eight_bits(setup, resolved(setup))
    return levers_of(resolved(setup), priced(setup), resolved(eight) if eight else None)


@st.cache_resource(max_entries=16, show_spinner="Tracing the model's own code …")
def traced(setup: Setup) -> Model:
    """As `app.model_inside.builder_and_trace.traced_model`."""
    return builder_and_trace.traced_model(setup)


def left_out() -> tuple[str, ...]:
    """As `hardware_db.left_out`, of the data folders of this visitor."""
    return _left_out(tuple(data_folder.edition(folder) for folder in data_folder.data_folders()))


@st.cache_data(max_entries=64, show_spinner=False)
def _left_out(editions: tuple[str, ...]) -> tuple[str, ...]:
    return hardware_db.left_out()


@st.cache_resource(show_spinner=False)
def _stamp_of_the_cache() -> frozenset[tuple[Path, int]]:
    """The user's own files and their times when the caches were last empty."""
    return data_folder.stamp()


def clear_stale_caches() -> None:
    """Clear the caches if the user's own files have changed since they were filled."""
    if _stamp_of_the_cache() != data_folder.stamp():
        st.cache_resource.clear()
        st.cache_data.clear()
        _stamp_of_the_cache()  # of the files that fill them from here on
