"""Autoscaling and availability as background jobs of a page: documents and chart data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.question.asking import Asked
from app.scaling.availability import availability
from app.scaling.scale import scale, shown_figures
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup, resolve_setup
from genz_core.progress import Cancel, Progress

Work = tuple[Setup, Asked, Mapping[str, Any]]


def follow(work: Work, progress: Progress, cancelled: Cancel) -> tuple[Setup, dict[str, Any]]:
    """The document of `scale`, with its figures as rows, and the setup that it belongs to.

    work: the setup of a page, the question for it, and the extras.

    Raises:
        RidgelineError: as `scale`.
    """
    setup, asked, extras = work
    found = scale(asked, extras, progress, cancelled, deployment=_deployment(work))
    return setup, {**found.to_dict(), "rows": shown_figures(found)}


def enough(work: Work, progress: Progress, cancelled: Cancel) -> tuple[Setup, dict[str, Any]]:
    """The document of `availability`; arguments and errors as `follow`."""
    setup, asked, extras = work
    found = availability(asked, extras, progress, cancelled, deployment=_deployment(work))
    return setup, found.to_dict()


def _deployment(work: Work) -> Resolved:
    """The resolved setup, with the question of the work."""
    setup, asked, _ = work
    return resolve_setup(replace(setup, scenario=asked.question))
