"""The document docs/accuracy.md: prediction errors by what was known, on one page."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.accuracy import disaggregated_runs, saturated_runs, shipped_errors
from app.accuracy.decisions import kept as kept_decisions
from app.accuracy.tables import Row
from app.answers.table import TableFormat, render

#: Reader-facing description of each split of the engine fit.
_KNOWN: Mapping[str, str] = {
    "configurations held out": "this model on this GPU was measured, at other loads or degrees",
    "one release left out": "the same, under other releases of the engine alone",
    "newest release left out": "the same, under older releases alone, as for every new one",
    "one source left out": "nothing of whoever measured it",
    "one GPU left out": "nothing was measured on this GPU",
    "one model left out": "nothing was measured of this model",
}
_FIGURES = {"tpot_s": "TPOT", "ttft_s": "TTFT", "e2e_s": "whole request"}
_STATES = {
    "recipe": "this model and format were measured on the device",
    "release": "under other releases alone",
    "few": "three runs of one's own",
    "device": "static batches: the engine was measured on the device",
    "none": "nothing of it",
}
_OPERATORS = {
    "gemm": "matrix product",
    "prefill_attention": "prefill attention",
    "decode_attention": "decode attention",
    "moe": "experts",
    "collective": "collective",
}

_SATURATED = (
    "Output tokens a second of runs that send all requests at once (`ridgeline validate "
    "throughput`), as published by NVIDIA for TensorRT-LLM and by dstack for vLLM, beside their "
    "simulation from the first request to the end of the last: the batch fills and drains, as in "
    "the run. TensorRT-LLM's benchmark cuts prompts to fit a step, and so does its simulation. "
    "The tables state neither the requests that run side by side nor the engine's limits, which "
    "their authors tuned: both are those of the engine's server. No such run fitted anything."
)
_APART = (
    "Mean TTFT and TPOT of closed-loop runs with workers of their own for prompts, beside their "
    "simulation (`ridgeline validate disaggregated`). One number, the same for all engines, was "
    "fitted on them: the steps of a hand-over, which each split learns without what it leaves out. "
    "*as shipped* has what aggregated runs teach of the steps of both pools; with a GPU, a model "
    "or an engine left out stands physics alone, its constants as they ship. *ratio* is the median "
    "of predicted over measured; what is not priced is refused with its reason."
)
_DECISIONS = (
    "The choice of the deployment with the most output tokens per second and GPU within 10 to "
    "100 ms per token, for every model, GPU and lengths with several measured deployments "
    "(`ridgeline validate decisions`). *Given away* is the share of the best measured throughput "
    "that the choice by prediction lacks: all of it where the choice misses its target by more "
    "than 10 %, or where nothing is predicted to meet it. It chooses as a plan does: of the "
    "deployments predicted to meet the target, the one with the most expected throughput. "
    "*Possible* leaves out the runs of which a figure lies below what the hardware allows at the "
    "load that they state. *Fewest GPUs* takes the fewest that were measured to meet the target, a "
    "rule that needs the measurements. GPUs are ranked by the most tokens within the target, pairs "
    "within 5 % left out. *Same*: of deployments, whose most users within the target are predicted "
    "to the step."
)

#: Why kernels timed alone still show errors; experiments on training shapes, in three folds.
_WHAT_REMAINS = (
    "The second column prices products, latent attention and collectives from tables of times "
    "between measured sizes, other attention and experts with boosted trees; neither falls "
    "where a size grows, and that is what products pay most for: free of it, trees miss "
    "unseen training shapes by 3.4 to 8.6 % where the table misses 4.9 to 10 (measured "
    "kernels do fall: an H100's 8-bit block product of n = 16,384, k = 10,240 takes 133 us at "
    "129 rows and 94 at 256). Between the measured sizes a table is as good as trees, no "
    "better. Repeats of one kernel differ by 0.2 to 1.6 % where the tables of the package "
    "hold any (latent attention, scans, some experts), so noise is not what is left. Prefill "
    "attention is 4.2 % without three small series (RTX 4090, A6000, A800; 539 kernels); "
    "decode attention misses most on the Arc Pro B60 (15 and 17 %); products on the MI308X "
    "and MI355X (8 to 25 %), of which few shapes were measured; experts on H100 and H200 in "
    "16 and 8 bit (16 to 21 %), most of it banks of a size and top-k that training shapes "
    "lack, priced too fast by 22 to 25 % on the H200. More or larger trees gained 0.1 to 0.7 "
    "points at four times the size; where shapes are few, a share of what trees say misses "
    "least."
)


def document(day: str) -> str:
    """The page as Markdown.  day: ISO date on which the tables were written."""
    parts = [
        "# Accuracy",
        f"Written by `ridgeline validate --write-docs docs/accuracy.md`, {day}. What a prediction "
        "missed on measurements not used in the fit, by what was known of the case; percent: the "
        "error is |predicted / measured - 1|. Every table behind it, by device, engine, model and "
        "format: [accuracy tables](accuracy-tables.md). One number worked through: [how a number "
        "is made](how-a-number-is-made.md). The simulation: [closed form](closed-form.md).",
        "## Under load",
        "Mean TTFT and TPOT of closed-loop runs on NVIDIA's data-centre GPUs; of other vendors no "
        "served run ships, so nothing is claimed there.",
        _table(_served()),
        "*possible* leaves out runs of which a figure lies below what the hardware allows at the "
        "load that they state; *physics alone* is their mean % with nothing learned from runs, its "
        "constants fitted without what was left out.",
        "## Saturated",
        _SATURATED,
        _table(_saturated()),
        "## Prompts read apart",
        _APART,
        _table(disaggregated_runs.shipped_table("split")),
        "## Decisions",
        _DECISIONS,
        _table(kept_decisions.shipped_table()),
        "## One batch",
        "One prefill, one decode step or one static batch, as published for NVIDIA, AMD, Intel, "
        "Apple and AWS devices, data-centre and consumer, 2022 to 2026.",
        _table(_batches()),
        "## One kernel",
        "Kernels timed alone, mean absolute error; *roofline* is what datasheet peaks say.",
        _table(_kernels()),
        _WHAT_REMAINS,
        "## Do the intervals hold?",
        "80 % is what they say. Points that drew neither the model nor the interval; *half-width* "
        "is the median over these points, *refused* had none that says anything (too few points, "
        "or wider than 150 %), *novel* is the coverage of the third that lay farthest from the "
        "runs that were known.",
        _table(_coverage()),
        "## Beside others",
        "As measured by running the tool, or as its authors state; rows overlap, and are not the "
        "same.",
        _table(_peers()),
    ]
    return "\n\n".join(parts) + "\n"


def _saturated() -> list[Row]:
    found = saturated_runs.records()
    rows = [{"engine": "all", **saturated_runs.error_table(found)[0]}]
    return rows + saturated_runs.error_table(found, ("engine",))


def _served() -> list[Row]:
    rows = []
    for metric, name in _FIGURES.items():
        errors = {
            (row["split"], row["metric"]): row for row in shipped_errors.fit_errors((metric,))
        }
        own = [row for row in shipped_errors.own_run_errors((metric,)) if row["metric"] == metric]
        for split, words in _KNOWN.items():
            if (found := errors.get((split, metric))) is not None:
                possible = errors.get((split, f"{metric}, possible"))
                physics = errors.get((split, f"{metric}, physics alone"))
                rows.append({"figure": name, "known": words, **_brief(found, possible, physics)})
        three = [row for row in own if row["own runs"] == 3]
        words = "nothing but three runs of one's own"
        rows += [{"figure": name, "known": words, **_brief(row, None)} for row in three]
    return rows


def _batches() -> list[Row]:
    rows = []
    for row in shipped_errors.fit_errors(shipped_errors.BATCH_METRICS):
        if row["split"] in _KNOWN and row["metric"] in shipped_errors.BATCH_METRICS:
            words = _KNOWN[row["split"]].replace("at other loads or degrees", "at other sizes")
            rows.append({"figure": row["metric"], "known": words, **_brief(row, None)})
    return sorted(rows, key=lambda row: list(_KNOWN.values()).index(_unsized(row["known"])))


def _unsized(words: str) -> str:
    return words.replace("at other sizes", "at other loads or degrees")


def _brief(
    row: Mapping[str, Any],
    possible: Mapping[str, Any] | None,
    physics: Mapping[str, Any] | None = None,
) -> Row:
    return {
        "points": int(row["points"]),
        "median %": row["median %"],
        "mean %": row["mape %"],
        "mean %, possible": possible["mape %"] if possible else None,
        "physics alone": physics["mape %"] if physics else None,
        "within 30 %": row["within_30 %"],
    }


def _kernels() -> list[Row]:
    matrix = shipped_errors.operator_matrix(shipped_errors.operator_series())
    columns = {
        "roofline": "roofline",
        "held-out, alone": "device timed, other shapes",
        "held-out shapes": "the same inside an engine's step",
        "sibling": "a sibling timed",
        "unseen family": "no device of the family timed",
    }
    return [
        {"kernel": _OPERATORS[row["operator"]], **{w: row.get(s) for s, w in columns.items()}}
        for row in matrix
        if row["operator"] in _OPERATORS
    ]


def _coverage() -> list[Row]:
    metrics = (*_FIGURES, "prefill", "decode", "e2e")
    rows = shipped_errors.interval_coverage(metrics)
    return [
        {
            "figure": _FIGURES.get(row["metric"], row["metric"]),
            "known": _STATES[row["known"]],
            "kernels timed": row["tier"],
            **{name: row.get(name) for name in ("points", "refused", "coverage %")},
            "novel %": row.get("most novel third %"),
            "half-width %": row["median half-width %"],
        }
        for row in rows
        if (row["points"] or 0) >= shipped_errors.LEAST_SHOWN
    ]


def _peers() -> list[Row]:
    rows = [*shipped_errors.peers("serving"), *shipped_errors.peers("published")]
    return [
        {
            "peer": row["peer"],
            "figure": _FIGURES.get(row["metric"], "one batch"),
            "median %": row["median %"],
            "mean %": row["mape %"],
            "rows": row["rows"],
        }
        for row in rows
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    return render(list(rows), TableFormat.markdown) if rows else "Not written yet."
