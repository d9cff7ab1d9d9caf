"""Options of an answer in addition to its question, declared like parameters."""

from collections.abc import Mapping
from typing import Any

from app.question.parameter import Parameter
from app.question.query import read
from genz_core.limits import LIMITS

_ON_ERROR = Parameter(
    "on_error", "text", "raise",
    "What to do if a configuration cannot run: raise its error, or return its row with a reason "
    "code (status).",
    choices=("raise", "status"),
)  # fmt: skip
_IN_ROWS = Parameter("on_error", "text", "status", _ON_ERROR.help, choices=_ON_ERROR.choices)
_LEVEL = "Interval level: percentage of runs that an interval should contain."
_MOST_REPLICAS = Parameter(
    "max_replicas", "whole", 100, "Maximum number of replicas.", least=1, most=10_000
)
_REPLICA = (
    Parameter(
        "weights_from", "text", "disk", "Where a starting replica loads its weights from.",
        label="Weights loaded from",
        choices=("disk", "disk_streamed", "network_disk", "object_store",
                 "object_store_streamed"),
    ),
    Parameter(
        "startup_s", "number", 0.0,
        "Seconds from requesting a replica until it serves; 0: computed from weight loading, "
        "compilation and graph capture.", unit="s", most=86_400.0, label="Start of a replica",
    ),
    Parameter(
        "replace_s", "number", 340.0,
        "Seconds from the loss of a replica until its replacement starts.", unit="s", most=1e9,
        label="Replacement of a replica",
    ),
    Parameter(
        "mtbf_h", "number", None,
        "Mean hours between failures of a device, which takes down its replica; by default the "
        "published figure; 0: no failures.", unit="h", most=1e9, label="Hours between losses",
    ),
    Parameter(
        "open_each", "whole", 0,
        "Maximum open requests per replica; others wait at the router; 0: no limit.",
        most=1_000_000, label="Open requests of a replica",
    ),
)  # fmt: skip
#: For each verb: its options besides the parameters of its question, for all interfaces.
EXTRAS: Mapping[str, tuple[Parameter, ...]] = {
    "estimate": (_ON_ERROR,),
    "serve": (_ON_ERROR,),
    "simulate": (
        Parameter(
            "worth", "truth", False,
            "Also simulate with fewer cache tiers and with other routers, and report what each is "
            "worth.",
        ),
    ),
    "ops": (
        Parameter(
            "cached_tokens", "list", ("0",),
            'Cached tokens of each query: "1048576,1024"; a single number applies to all.',
            also=("number", "numbers"),
        ),
        Parameter(
            "input_tokens", "list", ("1",), 'New text tokens of each query: "1,1".',
            also=("number", "numbers"),
        ),
        Parameter(
            "batch_size", "whole", 0,
            "Total number of queries, a multiple of the list's length; 0: one of each.",
            most=LIMITS["batch"].most,
        ),
    ),
    "sweep": (
        _IN_ROWS,
        Parameter("bounds_only", "truth", False, "Compute only the lower bounds that the hardware "
            "allows."),
    ),
    "routing": (
        Parameter(
            "copies", "list", (),
            'Redundant experts to try: "0,8,32"; by default 0, 1, 2 and 4 per rank.',
            also=("number", "numbers"),
        ),
    ),
    "export": (
        Parameter("phase", "text", "decode", "Step to export.", choices=("prefill", "decode")),
    ),
    "compare": (
        Parameter(
            "phase", "text", "",
            "Phase of reports that name none; by default inferred from shapes.",
            choices=("", "prefill", "decode"),
        ),
        Parameter("fill", "truth", True, "Read missing values from the reports."),
        Parameter("level", "number", 80.0, _LEVEL, unit="%", above=True, most=100.0),
    ),
    "guard": (
        Parameter("level", "number", 95.0, _LEVEL, unit="%", above=True, most=100.0),
        Parameter(
            "tolerance", "number", 5.0,
            "Run-to-run noise: percentage by which equal runs may differ.", unit="%", most=99.0,
        ),
    ),
    "tune": (
        Parameter(
            "goal", "text", "output_tokens_per_s",
            "Figure to optimise: output_tokens_per_s, requests_per_s, ttft, tpot_p95, e2e ...",
        ),
        Parameter("runs", "whole", 12, "Maximum number of runs.", least=1, most=10_000),
        Parameter(
            "within", "number", 5.0,
            "Stop when, by the intervals, no other setting can beat the best one by more than this "
            "percentage.", unit="%", most=1000.0,
        ),
        Parameter("level", "number", 80.0, _LEVEL, unit="%", above=True, most=99.99),
        Parameter("dry_run", "truth", False, "Use the simulator instead of a server."),
    ),
    "scale": (
        Parameter(
            "policy", "text", "hpa",
            "Autoscaler: Kubernetes' HPA, KEDA, or the planner of Dynamo.",
            choices=("hpa", "keda", "dynamo"), label="Autoscaler",
        ),
        Parameter(
            "metric", "text", "open",
            "Metric of hpa and keda: open requests, waiting requests, or the share of the KV cache "
            "in use.",
            choices=("open", "waiting", "kv_use"),
        ),
        Parameter(
            "metric_target", "number", 0.0,
            "Target of the metric per replica; 0: the open requests that a replica serves within "
            "the targets.", most=1e9, label="Target of the metric",
        ),
        Parameter(
            "min_replicas", "whole", 1, "Minimum replicas; keda may scale to 0.", most=10_000,
        ),
        _MOST_REPLICAS,
        Parameter(
            "interval_s", "number", 0.0,
            "Seconds between two scaling decisions; 0: 15 for hpa and keda, 180 for dynamo.",
            unit="s", most=86_400.0,
        ),
        Parameter(
            "stabilization_s", "number", 300.0,
            "hpa, keda: stabilization window; scale down only to the largest recommendation in it.",
            unit="s", most=86_400.0,
        ),
        Parameter(
            "tolerance", "number", 10.0,
            "hpa, keda: no change if the metric is this close to its target.", unit="%", most=100.0,
        ),
        Parameter(
            "cooldown_s", "number", 300.0, "keda: seconds without a request before it scales to 0.",
            unit="s", most=86_400.0,
        ),
        Parameter(
            "predictor", "text", "constant",
            "dynamo: predict that the next interval equals the last, or follow a trend (Kalman "
            "filter).",
            choices=("constant", "kalman"),
        ),
        *_REPLICA,
    ),
    "availability": (
        Parameter(
            "share", "number", 99.9, "Percentage of requests that must meet the targets.", unit="%",
            above=True, most=99.9999, label="Requests within targets",
        ),
        Parameter(
            "lost", "whole", 1,
            "Replicas that may be lost at once without missing the share (N+k).", most=1000,
            label="Replicas lost at once",
        ),
        _MOST_REPLICAS,
        *_REPLICA,
    ),
    "watch": (
        Parameter(
            "window", "number", 60.0, "Length of each window in seconds.", unit="s", least=1.0,
            most=86_400.0,
        ),
    ),
}  # fmt: skip
#: Options for programs only: additional parts of the answer.
OF_PROGRAMS: Mapping[str, tuple[Parameter, ...]] = {
    "estimate": (
        Parameter("operators", "truth", False, "Also return the operators of each step, for one "
            "batch."),
    ),
    "plan": (
        Parameter(
            "deployment", "text", "",
            "Also return deployment files of the best plan: kubernetes, helm, dynamo or llm-d.",
        ),
    ),
}  # fmt: skip


def extras_of(verb: str, *, programs: bool = False) -> dict[str, Parameter]:
    """Options of a verb besides its question, by name.  programs: whether to include
    `OF_PROGRAMS`.
    """
    more = OF_PROGRAMS.get(verb, ()) if programs else ()
    return {one.name: one for one in (*EXTRAS.get(verb, ()), *more)}


def read_extras(
    known: Mapping[str, Parameter], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The extras of a call, converted or at their defaults, and the other given values.

    Raises:
        InvalidValue: an invalid value.
    """
    found = {
        name: read(one, given[name]) if given.get(name) is not None else one.default
        for name, one in known.items()
    }
    return found, {name: value for name, value in given.items() if name not in known}
