"""The document docs/accuracy.md: prediction errors by what was known, on one page."""

from collections.abc import Mapping
from typing import Any

from app.accuracy import disaggregated_runs, saturated_runs, shipped_errors
from app.accuracy.decisions import kept as kept_decisions
from app.accuracy.tables import Row, table_text

#: Reader-facing description of each split of the engine fit.
_KNOWN: Mapping[str, str] = {
    "configurations held out": "this model on this GPU, at other loads or degrees",
    "one release left out": "the same, under other engine releases only",
    "newest release left out": "the same, under older engine releases only",
    "one source left out": "none of the same publisher",
    "one GPU left out": "none on this GPU",
    "one model left out": "none of this model",
}
_FIGURES = {"tpot_s": "TPOT", "ttft_s": "TTFT", "e2e_s": "whole request"}
_STATES = {
    "recipe": "this model and format on the device",
    "release": "the same, under other engine releases only",
    "few": "three own runs",
    "device": "static batches: this engine on the device",
    "none": "none of these",
}
_OPERATORS = {
    "gemm": "matrix product",
    "prefill_attention": "prefill attention",
    "decode_attention": "decode attention",
    "moe": "MoE experts",
    "collective": "collective",
}

_SATURATED = (
    "Output tokens per second of runs that send all requests at once (`ridgeline validate "
    "throughput`), published by NVIDIA for TensorRT-LLM and by dstack for vLLM, compared with a "
    "simulation from the first request to the end of the last: the batch fills and drains as in "
    "the run. TensorRT-LLM's benchmark uses chunked prefill, and so does its simulation. The "
    "sources do not state the number of concurrent requests or the engine limits, which their "
    "authors tuned; the simulation uses the defaults of the engine's server. These runs were "
    "not used in any fit."
)
_APART = (
    "Mean TTFT and TPOT of closed-loop runs with separate prefill workers, compared with their "
    "simulation (`ridgeline validate disaggregated`). One number, the same for all engines, was "
    "fitted on these runs: the decode steps that a KV cache hand-over takes; each split fits it "
    "without the runs left out. *As shipped*, step times of both pools are corrected by measured "
    "runs without pools. With a GPU, model or engine left out, they are uncorrected, with the "
    "shipped constants. *Ratio* is the median of predicted over measured; *priced* is the share of "
    "runs that could be predicted."
)
_DECISIONS = (
    "For every model, GPU and pair of lengths with several measured deployments: which "
    "deployment has the most output tokens per second per GPU at a TPOT of at most 10 to 100 ms "
    "(`ridgeline validate decisions`)? The choice follows the planner: among the deployments "
    "predicted to meet the target, the one with the highest expected throughput. *Throughput "
    "lost* is the share of the best measured throughput that this choice misses; all of it "
    "counts as lost if the choice exceeds its target by more than 10 %, or if no deployment is "
    "predicted to meet it (*no plan*). *Plausible runs* leaves out runs with a figure below the "
    "hardware bound of their stated load. *Fewest GPUs* takes the deployment with the fewest "
    "GPUs that was measured to meet the target, which needs the measurements. GPU pairs are "
    "ranked by the most tokens within the target; pairs within 5 % are left out. *User limits*: "
    "the largest number of users that a deployment serves within the target, and how often the "
    "predicted one is exact or too high."
)

#: Why kernels timed alone still show errors; experiments on training shapes, in three folds.
_WHAT_REMAINS = (
    "Kernels that run alone (second column) are predicted from tables of measured sizes for "
    "matrix products, latent attention and collectives, and by boosted trees for other attention "
    "and experts. In both, time never decreases with a size. For matrix products this constraint "
    "costs the most accuracy: without it, trees have 3.4 to 8.6 % error on unseen training "
    "shapes, the table 4.9 to 10 % (measured times do decrease in places: an H100's 8-bit block "
    "product of n = 16,384, k = 10,240 takes 133 us at 129 rows and 94 us at 256). Between "
    "measured sizes, table and trees are equally accurate. Measurement noise is not the cause of "
    "the remaining error: repeats of one kernel, where the tables have any (latent attention, "
    "scans, some experts), differ by 0.2 to 1.6 %. The largest errors: decode attention on the "
    "Arc Pro B60 (15 and 17 %); matrix products on the MI308X and MI355X (8 to 25 %), of which "
    "few shapes were measured; experts on H100 and H200 in 16 and 8 bit (16 to 21 %), mostly "
    "expert counts and top-k values that the training shapes lack, predicted 22 to 25 % too fast "
    "on the H200. Prefill attention has 4.2 % error without three small series (RTX 4090, A6000, "
    "A800; 539 kernels). More or larger trees gain 0.1 to 0.7 percentage points at four times "
    "the size; where shapes are few, applying only part of the trees' correction is best."
)


def document(day: str) -> str:
    """The page as Markdown.  day: ISO date on which the tables were written."""
    parts = [
        "# Accuracy",
        f"Written by `ridgeline validate --write-docs docs/accuracy.md`, {day}. Errors are "
        "|predicted / measured - 1| in percent, on measurements not used in the fit. The column "
        "*known runs* says which measured runs the prediction could use. All tables by device, "
        "engine, model and format: [accuracy tables](accuracy-tables.md). One number step by step: "
        "[how a number is made](how-a-number-is-made.md). Closed form compared with simulation: "
        "[closed form](closed-form.md).",
        "## Under load",
        "Mean TTFT and TPOT of closed-loop runs on NVIDIA's data-centre GPUs. No runs under load "
        "of other vendors are shipped, so nothing is validated there.",
        table_text(_served()),
        "*Plausible runs* leaves out runs with a figure below the hardware bound of their stated "
        "load. *Uncorrected* is the mean error on these runs if measured runs do not correct the "
        "prediction and the constants were fitted without the runs left out.",
        "## Saturated throughput",
        _SATURATED,
        table_text(_saturated()),
        "## Disaggregated prefill",
        _APART,
        table_text(disaggregated_runs.shipped_table("split")),
        "## Decisions",
        _DECISIONS,
        table_text(kept_decisions.shipped_table()),
        "## Static batches",
        "One prefill, one decode step or one static batch, as published for NVIDIA, AMD, Intel, "
        "Apple and AWS devices, data-centre and consumer, 2022 to 2026.",
        table_text(_batches()),
        "## Single kernels",
        "Mean absolute error of kernels timed alone; *roofline* predicts them from datasheet "
        "peaks.",
        table_text(_kernels()),
        _WHAT_REMAINS,
        "## Do the intervals hold?",
        "Coverage should be 80 %. The points were used to fit neither the prediction nor the "
        "interval. *Refused* points have no interval because it would rest on too few points or be "
        "wider than 150 %; *novel* is the coverage of the third of points farthest from the known "
        "runs; *half-width* is the median half-width of the intervals.",
        table_text(_coverage()),
        "## Other tools",
        "Errors measured by running the tool, or stated by its authors. The rows overlap with "
        "ours but are not the same.",
        table_text(_peers()),
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
                plausible = errors.get((split, f"{metric}, plausible runs"))
                physics = errors.get((split, f"{metric}, uncorrected"))
                rows.append(
                    {"figure": name, "known runs": words, **_brief(found, plausible, physics)}
                )
        three = [row for row in own if row["own runs"] == 3]
        words = "three of your own runs, no others of this model"
        rows += [{"figure": name, "known runs": words, **_brief(row, None)} for row in three]
    return rows


def _batches() -> list[Row]:
    metrics = shipped_errors.BATCH_METRICS
    errors = shipped_errors.fit_errors(metrics)
    return [
        {
            "figure": row["metric"],
            "known runs": words.replace("at other loads or degrees", "at other sizes"),
            **_brief(row, None),
        }
        for split, words in _KNOWN.items()
        for row in errors
        if row["split"] == split and row["metric"] in metrics
    ]


def _brief(
    row: Mapping[str, Any],
    plausible: Mapping[str, Any] | None,
    physics: Mapping[str, Any] | None = None,
) -> Row:
    return {
        "points": int(row["points"]),
        "median %": row["median %"],
        "mean %": row["mape %"],
        "mean %, plausible runs": plausible["mape %"] if plausible else None,
        "uncorrected mean %": physics["mape %"] if physics else None,
        "within 30 %": row["within_30 %"],
    }


def _kernels() -> list[Row]:
    matrix = shipped_errors.operator_matrix(shipped_errors.operator_series())
    columns = {
        "roofline": "roofline",
        "held-out, alone": "this device, other shapes",
        "held-out shapes": "the same, inside an engine step",
        "sibling": "another device of the family",
        "unseen family": "no device of the family",
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
            "known runs": _STATES[row["known"]],
            "constants": row["tier"],
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
            "tool": row["peer"],
            "figure": _FIGURES.get(row["metric"], "static batch"),
            "median %": row["median %"],
            "mean %": row["mape %"],
            "rows": row["rows"],
        }
        for row in rows
    ]
