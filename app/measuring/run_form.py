"""Run configurations before they run: composed from a page's form, with their names checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.measuring.outcome import settings_of
from app.measuring.prompts import prompts_of
from app.measuring.sweep import sweep_points
from genz_core.errors import InvalidValue
from profilers.collect.measured_model import check_settings
from profilers.runs.run_config import RunConfig, compose


def run_of_form(overrides: Sequence[str], grid: Mapping[str, Any] | None = None) -> RunConfig:
    """The configuration of a run that a visitor describes, with its names already looked up.

    Args:
        overrides: as in `compose`.
        grid: fields of a sweep, None for a single run.

    Raises:
        RidgelineError: as `compose` and `sweep_points`; an unknown model or system, a file of the
            server, weights of the hub.
    """
    config = compose(overrides)
    if config.model.path:
        raise InvalidValue(
            "model.path names a file of the server: give a name here; `ridgeline runs start` takes "
            "files, on the machine that they are on"
        )
    if config.model.checkpoint:
        raise InvalidValue(
            "model.checkpoint fetches gigabytes of weights, and times do not depend on them: leave "
            "it out; `ridgeline runs start` takes it"
        )
    if config.prompts.files:
        raise InvalidValue(
            "prompts.files names files of the server: give prompts.lengths here; "
            "`ridgeline measure run --prompts` takes files, on the machine that they are on"
        )
    if grid:
        sweep_points(grid["batches"], grid["lengths"], grid["phases"])
        config = config.with_fields(sweep=grid)
    check_run(config)
    return config


def check_run(config: RunConfig) -> None:
    """Look up the names of a run and refuse meaningless settings, before minutes of work.

    Raises:
        RidgelineError: an unknown model or system, a config that cannot be read, unknown kernels.
    """
    check_settings(settings_of(config))
    if config.prompts.files or config.prompts.lengths:
        prompts_of(config)
