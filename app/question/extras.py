"""What may be asked of an answer beside its question, declared as parameters are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.question.asking import read
from app.question.parameter import Parameter
from genz_core.limits import LIMITS

_ON_ERROR = Parameter(
    "on_error", "text", "raise",
    "What cannot run: raise its error, or status: give it a reason code in its row.",
    choices=("raise", "status"),
)  # fmt: skip
_IN_ROWS = Parameter("on_error", "text", "status", _ON_ERROR.help, choices=_ON_ERROR.choices)
_LEVEL = "Percent of runs that an interval is to hold."
_REPLICA = (
    Parameter(
        "weights_from", "text", "disk", "Where a replica that starts loads its weights from.",
        label="Weights loaded from",
        choices=("disk", "disk_streamed", "network_disk", "object_store",
                 "object_store_streamed"),
    ),
    Parameter(
        "startup_s", "number", 0.0,
        "Seconds from the order of a replica until it serves; 0: weights, compilation, graphs.",
        unit="s", least=0.0, most=86_400.0, label="Start of a replica",
    ),
    Parameter(
        "replace_s", "number", 340.0,
        "Seconds from the loss of a replica until another is started in its place.", unit="s",
        least=0.0, most=1e9, label="Replacement of a replica",
    ),
    Parameter(
        "mtbf_h", "number", None,
        "Hours between two losses of a device, which take its replica; by default as published; "
        "0: none are lost.",
        unit="h", least=0.0, most=1e9, label="Hours between losses",
    ),
    Parameter(
        "open_each", "whole", 0,
        "Open requests that a replica gets at most; those beyond wait before the router; 0: none "
        "do.",
        least=0, most=1_000_000, label="Open requests of a replica",
    ),
)  # fmt: skip
#: What a verb takes beside the parameters of its question, on every interface that can have it.
EXTRAS: Mapping[str, tuple[Parameter, ...]] = {
    "estimate": (_ON_ERROR,),
    "serve": (_ON_ERROR,),
    "simulate": (
        Parameter(
            "worth", "truth", False,
            "Also simulate with fewer cache tiers and with other routers, and say what each is "
            "worth.",
        ),
    ),
    "ops": (
        Parameter(
            "cached_tokens", "list", ("0",),
            'Cached tokens of each query: "1048576,1024"; one goes for all.',
            also=("number", "numbers"),
        ),
        Parameter(
            "input_tokens", "list", ("1",), 'New tokens of each query: "1,1", of text.',
            also=("number", "numbers"),
        ),
        Parameter(
            "batch_size", "whole", 0, "Queries in all, a multiple of the list; 0: one of each.",
            least=0, most=LIMITS["batch"].most,
        ),
    ),
    "sweep": (
        _IN_ROWS,
        Parameter("bounds_only", "truth", False, "Only the least times that physics allows."),
    ),
    "routing": (
        Parameter(
            "copies", "list", (),
            'Redundant experts to try: "0,8,32"; by default 0, 1, 2 and 4 a rank.',
            also=("number", "numbers"),
        ),
    ),
    "export": (
        Parameter("phase", "text", "decode", "Step to write.", choices=("prefill", "decode")),
    ),
    "compare": (
        Parameter(
            "phase", "text", "", "Phase of reports that name none; by default what shapes tell.",
            choices=("", "prefill", "decode"),
        ),
        Parameter("fill", "truth", True, "Read what is not given from the reports."),
        Parameter("level", "number", 80.0, _LEVEL, unit="%", least=0.0, above=True, most=100.0),
    ),
    "guard": (
        Parameter("level", "number", 95.0, _LEVEL, unit="%", least=0.0, above=True, most=100.0),
        Parameter(
            "tolerance", "number", 5.0, "Percent by which equal runs differ for no reason.",
            unit="%", least=0.0, most=99.0,
        ),
    ),
    "tune": (
        Parameter(
            "goal", "text", "output_tokens_per_s",
            "Figure to make best: output_tokens_per_s, requests_per_s, ttft, tpot_p95, e2e ...",
        ),
        Parameter("runs", "whole", 12, "Most runs in all.", least=1, most=10_000),
        Parameter(
            "within", "number", 5.0,
            "Stop where no setting is better than the best by more than so many percent, by its "
            "interval.",
            unit="%", least=0.0, most=1000.0,
        ),
        Parameter("level", "number", 80.0, _LEVEL, unit="%", least=0.0, above=True, most=99.99),
        Parameter("dry_run", "truth", False, "The simulator in place of a server."),
    ),
    "scale": (
        Parameter(
            "policy", "text", "hpa",
            "Autoscaler: Kubernetes' HPA, KEDA, or the planner of Dynamo.",
            choices=("hpa", "keda", "dynamo"), label="Autoscaler",
        ),
        Parameter(
            "metric", "text", "open",
            "What hpa and keda look at: open requests, those of them that wait, or the share of "
            "the KV cache in use.",
            choices=("open", "waiting", "kv_use"),
        ),
        Parameter(
            "metric_target", "number", 0.0,
            "Of the metric, a replica; 0: the open requests that one serves within the targets.",
            least=0.0, most=1e9, label="Target of the metric",
        ),
        Parameter(
            "min_replicas", "whole", 1, "Replicas at least; keda may go to 0.", least=0,
            most=10_000,
        ),
        Parameter("max_replicas", "whole", 100, "Replicas at most.", least=1, most=10_000),
        Parameter(
            "interval_s", "number", 0.0,
            "Seconds between two looks; 0: 15 of hpa and keda, 180 of dynamo.", unit="s",
            least=0.0, most=86_400.0,
        ),
        Parameter(
            "stabilization_s", "number", 300.0,
            "hpa, keda: down only to the most that was advised in so many seconds.", unit="s",
            least=0.0, most=86_400.0,
        ),
        Parameter(
            "tolerance", "number", 10.0, "hpa, keda: no change where the metric is so near.",
            unit="%", least=0.0, most=100.0,
        ),
        Parameter(
            "cooldown_s", "number", 300.0, "keda: seconds without a request before it goes to 0.",
            unit="s", least=0.0, most=86_400.0,
        ),
        Parameter(
            "predictor", "text", "constant",
            "dynamo: the next interval is as the last one, or a trend (Kalman filter).",
            choices=("constant", "kalman"),
        ),
        *_REPLICA,
    ),
    "availability": (
        Parameter(
            "share", "number", 99.9, "Percent of requests that are to meet the targets.",
            unit="%", least=0.0, above=True, most=99.9999, label="Requests within targets",
        ),
        Parameter(
            "lost", "whole", 1, "Replicas that may be lost at once and must not be missed (N+1).",
            least=0, most=1000, label="Replicas lost at once",
        ),
        Parameter(
            "max_replicas", "whole", 100, "Replicas at most.", least=1, most=10_000,
        ),
        *_REPLICA,
    ),
    "watch": (
        Parameter(
            "window", "number", 60.0, "Seconds that figures are taken over.", unit="s", least=1.0,
            most=86_400.0,
        ),
    ),
}  # fmt: skip
#: What only programs ask: the answer holds more.
OF_PROGRAMS: Mapping[str, tuple[Parameter, ...]] = {
    "estimate": (
        Parameter("operators", "truth", False, "Also the operators of each step, of one batch."),
    ),
    "plan": (
        Parameter(
            "deployment", "text", "",
            "Also the files of the best plan: kubernetes, helm, dynamo or llm-d.",
        ),
    ),
}  # fmt: skip


def extras_of(verb: str, *, programs: bool = False) -> dict[str, Parameter]:
    """What a verb takes beside its question, by name.  programs: `OF_PROGRAMS`, too."""
    more = OF_PROGRAMS.get(verb, ()) if programs else ()
    return {one.name: one for one in (*EXTRAS.get(verb, ()), *more)}


def read_extras(
    known: Mapping[str, Parameter], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The extras of a call, each in its type or at its default, and what else was given.

    Raises:
        InvalidValue: a value that cannot be.
    """
    found = {
        name: read(one, given[name]) if given.get(name) is not None else one.default
        for name, one in known.items()
    }
    return found, {name: value for name, value in given.items() if name not in known}
