"""The closed form of the load of a simulation.

It gives the duration of a session, and the corrections of steps by measured runs, which hold for
simulated steps, too.
"""

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from app.question.groups import CACHE, POOL
from app.question.parameters import in_group
from app.question.question import STANDARD, Question
from app.scenario import cache_tiers
from app.scenario.drafting import drafted
from app.scenario.scenario import Resolved
from app.scenario.served_rows import kept_step_scale, served
from app.simulation import offered_load
from app.simulation.trace_file import Trace
from genz_core.common.memo import ByIdentity
from genz_core.engine import NO_RECIPE
from genz_core.serving import ServingEstimate
from genz_core.serving.simulation import Options
from genz_core.serving.traffic import after_first
from genz_core.types import Array
from hardware_db.recipes import StepScale

_OPTIONS = (
    "max_num_seqs", "max_num_batched_tokens", "kv_tokens", "prefix_caching", "recv_interval",
    "batch_wait", "scheduler", "cache_writes",
)  # fmt: skip
_SERVED = ByIdentity[ServingEstimate](64)


class ClosedForm:
    """The closed form of one replica's load, priced on first use."""

    def __init__(self, resolved: Resolved, drawn: Trace, draft_model: Any) -> None:
        self.resolved = resolved
        self._drawn = drawn
        self._draft_model = draft_model

    @cached_property
    def served(self) -> ServingEstimate:
        r, question = self.resolved, one_replica(self.resolved.scenario, self._drawn)
        alone = replace(r, scenario=question)
        parts = (r.model, r.system, r.engine, r.profile, self._draft_model)
        # another draw of the arrivals is the same load
        return _SERVED.get(lambda: served(drafted(alone, self._draft_model)), *parts,
                           values=replace(question, seed=0))  # fmt: skip

    def session_s(self, scale: float) -> float:
        """Duration of a session [s], 0 if sessions never end.  scale: of the steps."""
        q, found = self.resolved.scenario, self.served
        osl = float(np.mean(self._drawn.requests.output_tokens))
        later = after_first(found.tpot_s[0], osl)
        request_s = float(found.ttft_s[0] + later) * scale / float(found.correction.steps[0])
        turns, think_s = offered_load.mean_session(q)
        session_s = request_s * turns + think_s * (turns - 1)
        return session_s if math.isfinite(session_s) else 0.0


def one_replica(question: Question, drawn: Trace) -> Question:
    """The question for one replica without prefill pool, with a load that the closed form supports.

    A ramp and a trace are replaced by their mean rate; recorded requests, lengths that are not
    uniform and prompts that find no prefix by their mean lengths.
    """
    requests, replicas = drawn.requests, question.replicas
    rate = question.rate or 0.0
    if question.trace or question.ramp_to or question.day:
        span = float(np.ptp(requests.arrival_s))
        rate = len(requests) / span if span else 0.0
    users = max(int(question.concurrency or len(requests)) // replicas, 1)
    load: dict[str, Any] = {
        "trace": None, "ramp_to": 0.0, "ramp_s": 0.0, "burstiness": 1.0, "day": (),
        "requests": None,
    }  # fmt: skip
    load |= {"concurrency": None if rate else users, "rate": rate / replicas or None}
    plain = ("replicas", *in_group(POOL), *in_group(CACHE), "sessions")
    load |= {name: getattr(STANDARD, name) for name in plain}
    alike = question.trace or question.lengths or question.length_spread or question.sessions
    if alike or not question.prefix_caching:
        of_turns = ("lengths", "length_spread", "shared_tokens", "turns", "turn_isl", "think_s",
                    "think_spread")  # fmt: skip
        load |= {name: getattr(STANDARD, name) for name in of_turns}
        load |= {"isl": _mean(requests.input_tokens), "osl": _mean(requests.output_tokens)}
    return replace(question, **load)


def _mean(tokens: Array) -> int:
    return max(round(float(np.mean(tokens))), 1)


def options_of(form: ClosedForm) -> tuple[Options, StepScale | None]:
    """Engine options of a deployment including measured step corrections, and the user's
    calibration, if one was used.
    """
    resolved, question = form.resolved, form.resolved.scenario
    kept = None if question.step_scale else kept_step_scale(resolved)
    below = cache_tiers.tiers(question, resolved.system)
    told = Options(**{name: getattr(question, name) for name in _OPTIONS}, tiers=below)
    if scale := question.step_scale or (kept.scale if kept else 0.0):
        return replace(told, step_scale=scale), kept
    return replace(told, **learned(form)), None


def before_a_prompt_s(prefill: Resolved, drawn: Trace, draft_model: Any) -> float:
    """Wait of a single prompt before a prefill worker starts it [s].

    It is the wait of the same server when it also decodes, as corrected by measured runs:
    tokeniser, scheduler, network.  Waiting for other requests is simulated.
    """
    alone = replace(one_replica(prefill.scenario, drawn), concurrency=1, rate=None)
    outside_s = float(served(drafted(replace(prefill, scenario=alone), draft_model)).outside_s[0])
    return outside_s if math.isfinite(outside_s) else 0.0


def learned(form: ClosedForm) -> dict[str, Any]:
    """Step corrections from measured runs near this load, as in the closed form: `Options`."""
    engine = form.resolved.engine
    if engine.neighbours is None and engine.recipe == NO_RECIPE:
        return {"step_scale": 1.0}
    found = form.served
    outside = float(found.outside_s[0])
    return {
        "step_scale": float(found.correction.steps[0]),
        "prompt_scale": float(found.correction.prompts[0]),
        "wait_s": outside if math.isfinite(outside) else 0.0,
    }
