"""Likely causes of large errors: rules over a measured row and the rows that share its labels.

Each answer is a suspicion, not a finding; the flags of the run would settle most of them, but no
label states them.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import model_registry
from app.accuracy.measured_points import SERVING_METRICS
from app.accuracy.tables import Columns, Row, rows_of
from app.wording import quantities
from genz_core.errors import RidgelineError

_FAR = 3.0  # ratio from which two figures of one run contradict each other
_OFF = 1.5  # ratio from which an error needs a reason
_SEVERAL = 4  # fewest rows for judging a common label
_ALIKE = 0.25  # median error from which the common label is suspected


def suspicion(
    record: Mapping[str, Any], other: Mapping[str, Any] | None = None, common: float = 1.0
) -> str:
    """The likely cause of a record's error in a sentence, "not understood" if no rule applies.

    record: of `measured_points.serving` or `measured_points.published`.  other: the record of the
    same run's other metric, if there is one.  common: median predicted / measured of the records
    that share its source, model and device.
    """
    ratio = record["predicted_s"] / record["measured_s"]
    if record["status"] == "out_of_memory":
        return (
            "does not fit into memory as priced: other memory settings, or fewer bits than labelled"
        )
    if record["metric"] in SERVING_METRICS:
        beside = other["predicted_s"] / other["measured_s"] if other else 1.0
        return _served(record, ratio, beside)
    return _batch(record, ratio, common)


def _served(record: Mapping[str, Any], ratio: float, beside: float) -> str:
    tpot, ttft = (ratio, beside) if record["metric"] == "tpot_s" else (beside, ratio)
    if ttft < 1 / _FAR and tpot > _OFF:
        return "fewer requests ran than were open: a limit on sequences, or a smaller KV cache"
    if ttft > _FAR and tpot > _FAR:
        return "both figures are too fast for the stated load, which may not have run"
    if record["metric"] == "ttft_s" and ttft < 1 / _FAR:
        return "long queueing: a small KV cache, or warm-up within the run"
    if record["metric"] == "tpot_s" and tpot > _OFF and _predicts_tokens(str(record["model"])):
        return "the model has multi-token prediction layers, whose use the label does not state"
    if record["metric"] == "ttft_s" and ttft > _FAR:
        return "similar runs, which correct this prediction, queued far longer"
    if record["origin"] == "vendor_grid":
        return "from a vendor's grid: engine flags and date unknown, equal configurations disagree"
    return "not understood"


def _batch(record: Mapping[str, Any], ratio: float, common: float) -> str:
    if abs(common - 1.0) > _ALIKE and (common < 1.0) == (ratio < 1.0):
        return "points of this source, model and device share this bias: a common label or kernel"
    side = "slower" if ratio < 1 else "faster"
    if "llama.cpp" in str(record["engine"]).casefold() and record["phase"] == "prefill":
        return f"llama.cpp's prefill kernels for this format are {side} here than in its profile"
    if record["weights"] in ("int4", "gptq", "awq") and ratio < 1:
        return "weight-only kernels of that engine version reach less bandwidth"
    if record["phase"] == "e2e" and ratio < 1:
        return "host time between steps, or sequences that do not start together"
    return "not understood"


@functools.lru_cache(maxsize=256)
def _predicts_tokens(model: str) -> bool:
    try:
        return bool(model_registry.describe(model)["mtp_layers"])
    except RidgelineError:
        return False


def suspected_records(records: Columns, worst: Sequence[Row]) -> list[Row]:
    """The records `worst`, each with its likely cause in the column "suspected".

    records: all priced records; rules compare with those of the same run and labels.
    """
    runs: dict[Any, list[int]] = {record["id"]: [] for record in worst}
    labelled: dict[tuple[Any, ...], list[int]] = {_label(record): [] for record in worst}
    labels = zip(*(records[name] for name in _LABELS if name in records), strict=True)
    for at, (run, label) in enumerate(zip(records["id"], labels, strict=True)):
        if run in runs:
            runs[run].append(at)
        if label in labelled:
            labelled[label].append(at)
    ratios = records["predicted_s"] / records["measured_s"]
    suspected = []
    for record in worst:
        run = [at for at in runs[record["id"]] if records["metric"][at] != record["metric"]]
        alike = ratios[labelled[_label(record)]]
        common = float(np.median(alike)) if len(alike) >= _SEVERAL else 1.0
        other = next(iter(rows_of(records, run)), None)
        suspected.append({**record, "suspected": suspicion(record, other, common)})
    return suspected


def brief(worst: Sequence[Row]) -> list[dict[str, str]]:
    """One short row per record for a reader: error, predicted, measured, suspected, run, id."""
    return [
        {
            "error": f"{row['error']:+.0%}",
            "predicted": quantities.seconds(row["predicted_s"]),
            "measured": quantities.seconds(row["measured_s"]),
            "suspected": row["suspected"],
            "run": run_words(row),
            "id": row["id"],
        }
        for row in worst
    ]


def run_words(row: Mapping[str, Any]) -> str:
    """Model, formats, system, engine, degree, lengths and load of a measured row in one line."""
    load = f"{row['concurrency']} users" if row.get("concurrency") else f"batch {row['batch']}"
    words = (row["model"], row["weights"], row["system"], row["engine"], f"TP{row['tp'] or 1}")
    return ", ".join([*filter(None, words), f"{row['isl']}/{row['osl']} tokens", load])


_LABELS = ("source", "model", "system")


def _label(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in _LABELS if name in record)


# ------------------------------------------------------------------------------- operator series

_DOUBTS: Mapping[str, str] = {
    "mla_decode": "few head shapes were measured; kernels differ by version",
    "collective": "host-bound links: bandwidth on one host says little about another",
    "moe": "kernel choice depends on the number of tokens per expert",
    "pointwise": "few points; small kernels lie near the clock's resolution",
    "scan": "chains of kernels that libraries fuse differently",
}


def suspected_series(series: Sequence[Row]) -> list[Row]:
    """Operator series with one decimal, each with its likely cause in the column "suspected".

    series: rows of `shipped_errors.operator_series`.
    """
    shown = ("operator", "system", "fmt", "points", "mape %", "median %", "p90 %", "bias %")
    return [
        {name: round(row[name], 1) if "%" in name else row[name] for name in shown}
        | {"suspected": _doubt(row)}
        for row in series
    ]


def _doubt(row: Row) -> str:
    if abs(row["bias %"]) > 0.7 * row["mape %"]:
        side = "slower" if row["bias %"] < 0 else "faster"
        return f"all points are {side} by a similar factor: a kernel unlike the fitted ones"
    if row["p90 %"] > 3 * row["median %"]:
        return "a few shapes are far off: the library switches kernels, the model does not"
    return _DOUBTS.get(row["operator"], "not understood")
