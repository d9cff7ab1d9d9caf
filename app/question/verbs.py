"""The verbs: what each computes from a question, and which parameters have no meaning for it.

Every verb takes every parameter; `LEFT_OUT` lists the exceptions with their reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.question.decisions import Prices, Search, Targets
from app.question.groups import CACHE, FORMATS, POOL
from app.question.load import Load
from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS, in_group, names_of

Reason = Literal["physics", "not modelled", "server files", "array only", "measured"]
#: Why a verb or an interface leaves a parameter out.
REASONS: Mapping[Reason, str] = {
    "physics": "it has no meaning for what the verb computes",
    "not modelled": "it would change the answer, and the verb does not model it",
    "server files": "it would read a file of the server",
    "array only": "it is the axis of a table, one number for all rows",
    "measured": "it is read from the measurement",
}


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing to compute from a question.

    loads: kinds of load that it accepts, the first being the default ("" for none: one must be
    given).  several: parameters that take several values to choose among, besides arrays.
    arrays: whether parameters take one value per configuration.  names_model: whether the caller
    must name the model.  measured: whether missing values, including the load, are read from a
    measurement.
    """

    name: str
    loads: tuple[str, ...]
    default_load: str = ""
    several: tuple[str, ...] = ()
    arrays: bool = False
    names_model: bool = True
    measured: bool = False


_CLOSED = ("batch", "concurrency", "rate")
_SPACE = (
    "system", "engine", "weights", "kv", "tp", "pp", "dp", "ep", "max_num_seqs", "speculation",
    "offload", "redundant_experts",
)  # fmt: skip
_NAMES = ("model", "system", "engine", "engine_version", "weights", "moe_weights", "kv",
          "activations", "compute")  # fmt: skip
#: Parameters that a server is started with, and that a search over a real one may change.
_TUNED = (
    "engine", "weights", "kv", "tp", "pp", "dp", "ep", "max_num_seqs", "max_num_batched_tokens",
    "memory_fraction", "speculation", "draft_tokens", "offload", "stream_interval", "recv_interval",
    "batch_wait", "chunked_prefill",
)  # fmt: skip
_CROSSED = (*_NAMES, "memory_fraction", "chunked_prefill", "speculation", "offload", "overlap")
VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb("estimate", _CLOSED, "batch", arrays=True),
        Verb("serve", _CLOSED[1:], arrays=True),
        Verb("simulate", ("concurrency", "rate", "trace")),
        Verb("sweep", _CLOSED, "batch", _CROSSED, arrays=True),
        Verb("plan", ("concurrency", "rate", "trace"), several=_SPACE),
        Verb("scale", ("rate", "trace")),
        Verb("availability", ("rate", "trace")),
        Verb("compare", _CLOSED, "batch", names_model=False, measured=True),
        Verb("calibrate", _CLOSED, "batch", names_model=False, measured=True),
        Verb("guard", _CLOSED, "batch", names_model=False, measured=True),
        Verb("sensitivity", _CLOSED, "batch"),
        Verb("economics", _CLOSED[1:], "concurrency"),
        Verb("predictor", ("batch",), "batch"),
        Verb("ops", ("batch",), "batch"),
        Verb("routing", _CLOSED, "batch"),
        Verb("export", ("batch",), "batch"),
        Verb("tune", _CLOSED[1:], several=_TUNED),
        Verb("watch", _CLOSED[1:], "concurrency", names_model=False, measured=True),
    )
}

#: Verbs that simulate individual requests.
ONE_BY_ONE = ("simulate", "scale", "availability")
#: Parameters that only matter in a simulation of individual requests.
_ONE_BY_ONE = (
    "burstiness", "ramp_to", "ramp_s", "seed", "length_spread", "lengths", "router", "sessions",
    "front_ends", "kv_tokens", "prefix_caching", "scheduler",
)  # fmt: skip
#: Tiers of cached prefixes, and parameters of the pauses between reuses.
_TIERS = (*in_group(CACHE), "think_s", "think_spread")
#: The tier that replicas share, whose number a plan looks for.
_REMOTE = ("remote_cache_gib", "remote_cache_gb_per_s")
_TIER_PRICES = ("host_cache_price", "disk_cache_price", "remote_cache_price")
#: Parameters of several deployments behind one router, and of prefill pools.
SEVERAL = ("replicas", *in_group(POOL))
_STATIC = ("cp", "micro_batches", "sequence_parallel", "placement", "diffusion_steps",
           "block_length")  # fmt: skip
_WANTED = names_of(Targets)
_COST = names_of(Prices)
_OF_SENSITIVITY = ("change",)
_OF_PLAN = tuple(name for name in names_of(Search) if name not in _OF_SENSITIVITY)
#: Parameters that a static batch has no use for: it has no queue, no arrivals and no cache of
#: earlier prompts.
NOT_OF_A_BATCH = (
    "burst_start", "stream_interval", "recv_interval", "batch_wait", "prefix_hits",
    "shared_tokens", "turns", "turn_isl", *_TIERS, "prefix_tier", "samples", "beams",
    "max_num_seqs", "step_scale",
    *SEVERAL,
)  # fmt: skip
#: Parameters that no engine's serving loop has.
NOT_UNDER_LOAD = _STATIC

#: Parameters of what engines do with requests that a simulation of requests does not model.
_NOT_SIMULATED = (
    "offload", "images", "image_size", "audio_seconds", "samples", "beams", "lora_rank",
    "lora_adapters", "stream_interval",
)  # fmt: skip
#: Parameters that a simulation computes itself or leaves to the closed form.
_OF_NO_SIMULATION = (*_STATIC, "batch", "prefix_hits", "prefix_tier", *_NOT_SIMULATED)
#: Parameters supported for a fixed set of replicas, but not for replicas that start and stop.
_NOT_SCALED = ("ramp_to", "ramp_s", "sessions", "front_ends", "think_spread", *in_group(CACHE),
               *in_group(POOL))  # fmt: skip
_OF_NO_DAY = (*_OF_NO_SIMULATION, *_NOT_SCALED, "concurrency", "burst_start")
_COUNTED = ("model", *in_group(FORMATS), "tp", "dp", "ep", "moe_tp", "images", "image_size")
_LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "estimate": (*_ONE_BY_ONE, *_WANTED, *(name for name in _COST if name != "price"), "trace"),
    "serve": (*_ONE_BY_ONE, *_STATIC, *_WANTED, *(n for n in _COST if n != "price"), "batch",
              "trace"),
    "sweep": (*_ONE_BY_ONE, *_WANTED, *(name for name in _COST if name != "price"), "trace"),
    "simulate": (*_OF_NO_SIMULATION, "target",
                 *(n for n in _COST if n not in ("price", *_TIER_PRICES))),
    "scale": (*_OF_NO_DAY, *(name for name in _COST if name not in ("price", "day"))),
    "availability": (*_OF_NO_DAY, "replicas", *(name for name in _COST if name != "price")),
    "plan": (*_STATIC, "batch", "burst_start", "requests", "burstiness", "ramp_to", "ramp_s",
             *_REMOTE, "sessions", "length_spread", "lengths", "ttft_target_s", "tpot_target_s",
             "e2e_target_s", "replicas", "router", "front_ends",
             *(n for n in _COST if n != "price"), *in_group(POOL)),
    "sensitivity": (*_ONE_BY_ONE, *_TIERS, *_COST, "ttft_target_s", "tpot_target_s", "e2e_target_s",
                    "trace"),
    "economics": (*_ONE_BY_ONE, *_TIERS, *_TIER_PRICES, *_STATIC, *_WANTED, "batch", "trace"),
    "tune": (*(name for name in _ONE_BY_ONE if name != "seed"), *_TIERS, *SEVERAL, *_STATIC,
             *(name for name in _WANTED if name != "target"), *_COST, "batch", "trace"),
    **{verb.name: (*_ONE_BY_ONE, *_TIERS, *_WANTED, *_COST, "trace") for verb in VERBS.values()
       if verb.measured},
    "watch": (*_ONE_BY_ONE, *_TIERS, *SEVERAL, *_STATIC, *_WANTED, *_COST, "batch", "trace"),
    "routing": (*_ONE_BY_ONE, *_TIERS, *_WANTED, *(n for n in _COST if n != "price"), "trace",
                "expert_imbalance", "redundant_experts"),
    "export": (*_ONE_BY_ONE, *_WANTED, *_COST, "concurrency", "rate", "trace", "requests",
               *NOT_OF_A_BATCH),
    "predictor": (*names_of(Load), *_ONE_BY_ONE, *_STATIC, *_WANTED, *_COST, *NOT_OF_A_BATCH,
                  "offload"),
    "ops": tuple(name for name in PARAMETERS if name not in _COUNTED),
}  # fmt: skip
#: Parameters taken from a measurement: how its users began, and how many requests they sent.
_MEASURED = ("burst_start", "requests")
#: Parameters that change a load but are not part of the closed-form equations; a seed alone has no
#: effect.
_NOT_IN_CLOSED_FORM = (*(name for name in _ONE_BY_ONE if name != "seed"), *_TIERS)
#: Those of `_LEFT_OUT` that would change the answer; for a static batch none does.
_NOT_MODELLED: Mapping[str, tuple[str, ...]] = {
    "simulate": _NOT_SIMULATED,
    **dict.fromkeys(("scale", "availability"), (*_NOT_SIMULATED, *_NOT_SCALED)),
    **{verb.name: _NOT_IN_CLOSED_FORM for verb in VERBS.values()
       if verb.name not in ONE_BY_ONE and verb.loads != ("batch",)},
}  # fmt: skip


def _reasons(verb: str) -> dict[str, Reason]:
    """Why a verb leaves parameters out, by their names."""
    beside = (*(() if verb == "plan" else _OF_PLAN),
              *(() if verb == "sensitivity" else _OF_SENSITIVITY))  # fmt: skip
    unmodelled = _NOT_MODELLED.get(verb, ())
    why: dict[str, Reason] = {
        name: "not modelled" if name in unmodelled else "physics"
        for name in (*_LEFT_OUT[verb], *beside)
    }
    return why | dict.fromkeys(_MEASURED if VERBS[verb].measured else (), "measured")


#: {verb: {parameter: why the verb leaves it out}}.
LEFT_OUT: Mapping[str, Mapping[str, Reason]] = {verb: _reasons(verb) for verb in _LEFT_OUT}


def refusal(verb: str, name: str) -> str:
    """The sentence on a parameter that a verb does not take."""
    if LEFT_OUT[verb][name] == "not modelled":
        return f"{name} is not modelled by {verb}: leave it out"
    return f"{name} does not apply to {verb}: leave it out"


def parameters_of(verb: str) -> dict[str, Parameter]:
    """The parameters that a verb takes, by name, in the order of declaration."""
    return {name: one for name, one in PARAMETERS.items() if name not in LEFT_OUT[verb]}
