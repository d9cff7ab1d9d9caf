"""The accuracy documents: a one-page summary, all tables of the page Accuracy, a worked example."""

from collections.abc import Sequence
from pathlib import Path

from app.accuracy import (
    disaggregated_runs,
    likely_causes,
    measured_points,
    shipped_errors,
    summary_document,
    tables,
    worked_example_document,
)
from app.accuracy.tables import Columns, Row, columns_of, table_text
from app.answers.table import without_empty
from genz_core.errors import InvalidValue
from hardware_db.profiles.validation import OPERATOR_SPLITS

_WORST = 20


def write_documents(target: Path, published: Sequence[Row], serving: Sequence[Row]) -> list[Path]:
    """Write the summary page to `target`, and its tables and the worked example to the same folder.

    published, serving: records of `app.accuracy.measured_points`.  Returns the paths.

    Raises:
        InvalidValue: the folder cannot be written.
    """
    today = tables.today()
    texts = {
        target: summary_document.document(today),
        target.with_name("accuracy-tables.md"): markdown(published, serving, today),
        target.with_name("how-a-number-is-made.md"): worked_example_document.document(),
    }
    try:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot write {target}: {error.strerror or error}") from None
    return list(texts)


def markdown(published: Sequence[Row], serving: Sequence[Row], day: str) -> str:
    """The accuracy tables as Markdown: operators, batch points, serving, limits.

    published, serving: records of `app.accuracy.measured_points`.  day: ISO date of the pricing.
    """
    series = shipped_errors.operator_series()
    parts = [
        "# Accuracy tables",
        f"Written by `ridgeline validate --write-docs docs/accuracy.md`, {day}. Figures are in "
        "percent unless stated otherwise. The error is predicted / measured − 1; MAPE, median and "
        "p90 are of its absolute value, bias is its mean. The dashboard's page *Accuracy* shows "
        "the same with charts; [accuracy](accuracy.md) is the summary.",
        *_operators(series),
        *_batch(columns_of(published)),
        *_serving(columns_of(serving)),
        *_read_apart(),
        _limits(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _operators(series: Sequence[Row]) -> list[str]:
    if not series:
        return ["## Operators", "Not validated yet."]
    matrix = shipped_errors.operator_matrix(series)
    held_out = [row for row in series if row["split"] == "held-out shapes"]
    meaning = "\n".join(f"- **{name}**: {words}" for name, words in OPERATOR_SPLITS.items())
    return [
        "## Operators",
        shipped_errors.operator_sentence(matrix),
        f"Data: operator tables of {series[0]['data']} (NVIDIA, Apache-2.0); fitted "
        f"{series[0]['date']}. Every series (operator, device, format) has equal weight. MAPE:",
        table_text(matrix),
        meaning,
        "Held-out shapes by device:",
        table_text(shipped_errors.operator_summary(held_out, ("operator", "system"))),
        "80 % of measurements not used in the fit lie within these multiples of the prediction:",
        table_text(shipped_errors.operator_intervals()),
        "Other tools:",
        table_text(without_empty(shipped_errors.peers("operators"))),
    ]


def _batch(records: Columns) -> list[str]:
    return [
        "## Static batches",
        f"{len(records['id'])} published points (one prefill, one decode step or one static "
        "batch) in `hardware_db/measurements/published.csv`, each with a citation.",
        shipped_errors.split_sentence(
            shipped_errors.fit_errors(shipped_errors.BATCH_METRICS), "published, all"
        ),
        *_common(records, shipped_errors.BATCH_METRICS, ("metric", "system", "engine", "weights")),
        "Other tools:",
        table_text(without_empty(shipped_errors.peers("published"))),
        *_worst(records, records),
    ]


def _serving(records: Columns) -> list[str]:
    parts = [
        "## Serving under load",
        f"{len(records['id']) // 2:,} closed-loop runs in `hardware_db/measurements/serving.csv`, "
        "mean TTFT and TPOT of each. Engine, model, GPU, format, degrees, lengths and load are "
        "known; engine flags only for the runs of the public benchmark.",
    ]
    for metric, name in (("tpot_s", "TPOT"), ("ttft_s", "TTFT")):
        shown = measured_points.of_metric(records, metric)
        columns = ("system", "engine", "model", "weights", "concurrency", "origin")
        parts += [
            f"### {name}",
            shipped_errors.split_sentence(shipped_errors.fit_errors((metric,)), metric),
            *_common(shown, (metric,), columns),
            "Other tools:",
            table_text(without_empty(shipped_errors.peers("serving", metric))),
            *_worst(records, shown),
        ]
    return parts


def _read_apart() -> list[str]:
    rows = disaggregated_runs.shipped_table("split")
    parts = [
        "## Disaggregated prefill",
        "Closed-loop runs with separate prefill workers in "
        "`hardware_db/measurements/disaggregated.csv`, mean TTFT and TPOT of each, simulated with "
        "lengths of 80 to 100 % of nominal, all users starting at once, ten requests per user, of "
        "which five are simulated "
        "(`ridgeline validate disaggregated --keep`).",
        table_text(rows),
    ]
    for by in disaggregated_runs.BY if rows else ():
        parts += [f"By {by}, as shipped:", table_text(disaggregated_runs.shipped_table(by))]
    return parts


def _common(records: Columns, metrics: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Tables that batch points and serving share: errors by split and by column, then coverage.

    metrics: those of the fit errors.  columns: of `records`; each gets a table of in-sample errors.
    """
    parts = ["By split of the fit:"]
    splits = shipped_errors.fit_errors(metrics)
    parts += [
        table_text(splits),
        "\n".join(f"- {words}" for words in shipped_errors.split_words(splits)),
        f"All rows. {shipped_errors.AS_SHIPPED}",
    ]
    parts.append(table_text(measured_points.error_table(records)))
    for name in columns:
        of_column = measured_points.error_table(records, (name,))
        parts += [f"In sample, by {name}:", table_text(of_column)]
    if own := shipped_errors.own_run_errors(metrics):
        parts += [f"After your own runs. {shipped_errors.OWN_RUNS}", table_text(own)]
    coverage = shipped_errors.interval_coverage(metrics)
    words = f"Coverage of 80 % intervals on points not used in any fit. {shipped_errors.KNOWN}"
    return [*parts, words, table_text(without_empty(coverage))]


def _worst(records: Columns, shown: Columns) -> list[str]:
    worst = likely_causes.suspected_records(records, measured_points.worst(shown, _WORST))
    words = "The largest errors, with causes suggested by rules (not confirmed):"
    return [words, table_text(likely_causes.brief(worst))]


def _limits() -> str:
    return (
        "## Limits\n\n"
        "- Tables by column are in sample: the same points were used to fit the engines, and each "
        "run under load also corrects its own prediction. For the error on a new load, model or "
        "GPU see the rows *left out*.\n"
        "- The held-out errors are slightly optimistic: how far an engine's constants may differ "
        "between engines and devices (`genz_core/engine.py`) was chosen by the errors of these "
        "splits, and the distance over which runs correct each other (`engines/kernels.csv`, some "
        "twenty numbers per figure) was fitted on all runs.\n"
        "- All serving rows are NVIDIA's data-centre GPUs; other vendors appear among the batch "
        "points only.\n"
        "- Runs with the same labels differ by unstated engine flags, which cause part of the "
        "error.\n"
        "- Figures of other tools are as stated by their source, on rows that overlap these."
    )
