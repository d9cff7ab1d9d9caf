"""Page of the fitted profiles' errors: hardware_db/profiles/README.md."""

from __future__ import annotations

import pandas as pd

from genz_core.common.cells import markdown_row
from hardware_db.profiles.validation import OPERATOR_SPLITS, summary

_TEXT = """# Latency profiles

Constants of the latency models in `genz_core/latency`, one YAML file per measured device, and two
files of typical constants (`default_narrow`, `default_wide`) for devices whose family nobody
measured. This page is written by `python -m hardware_db.fit`, which fits everything again from
the same tables: the operator measurements of {data}
(NVIDIA, Apache-2.0; installed by the extra `calibrate`), those of TensorRT-LLM where it measured
the format, else of vLLM or SGLang. Not used: decode with more than 32 query heads per key head,
experts without gate or on the low-latency path, and fp8 products on the Arc Pro B60, which has no
8-bit floating point units. `python -m hardware_db.fit.other_devices` adds devices that other
public benchmarks measured: AMD Instinct (ROCm/aiter e404860, MIT: the fastest kernel after
tuning, operands cold), RTX 3090, 4090 and A6000 (casys-kaist/LLMServingSim 5daddb2, MIT), H800 and
A800 (NetX-lab/Frontier a4b22df, MIT) and H20 (zksainx/pipeweave 55e0317, Apache-2.0). The MI308X
is priced as an MI300X with 80 of its 304 units, and stands in for formats that the MI300X lacks.
Constants are kept where they price held-out shapes better than those of the family.

How well the models predict points not used in the fit, as mean absolute error in percent; every
series (device, operator, format) counts alike. `roofline` is the datasheet alone. Shapes are held
out by family (the weights' shape, the heads, the experts), every second message size of
collectives. `sibling` leaves the device out, `unseen family` all devices of its family; the last
two columns add points of the device itself, drawn over the range of its latencies. The forms of
the models and the reach of the typical constants were chosen with these tables in sight, so the
figures are somewhat kind to them.

{errors}

Mean signed error in percent, same rows:

{bias}

By number format, held-out shapes:

{formats}

`left out` counts points that beat the device's peaks and were dropped before fitting: {left_out}.
`operator_validation.csv` has every series; `residuals.yaml` the quantiles of
ln(measured / predicted) behind the error bars, and the share of a device's points that an 80 %
interval made without that device covers.
"""


def page(table: pd.DataFrame) -> str:
    """The page as Markdown, from a table of `validation_rows`."""
    held_out = table[table["split"] == "held-out shapes"]
    dropped = held_out[held_out["left_out"] > 0]
    left_out = ", ".join(
        f"{row.left_out} of {row.system} {row.operator} {row.fmt}" for row in dropped.itertuples()
    )
    return _TEXT.format(
        data=table["data"].iloc[0],
        errors=_by_split(summary(table), "mape"),
        bias=_by_split(summary(table), "bias"),
        formats=_by_format(held_out),
        left_out=left_out or "none",
    )


def _by_split(errors: pd.DataFrame, column: str) -> str:
    """Table of one error in percent: operators by splits."""
    wide = errors.pivot(index="operator", columns="split", values=column)
    wide = 100.0 * wide[[name for name in OPERATOR_SPLITS if name in wide]]
    return _markdown(wide.reset_index())


def _by_format(held_out: pd.DataFrame) -> str:
    """Table of the errors in percent by operator and format."""
    grouped = held_out.groupby(["operator", "fmt"])[["mape", "median", "p90", "bias"]]
    table = (100.0 * grouped.mean()).join(grouped.size().rename("devices"))
    return _markdown(table.reset_index())


def _markdown(table: pd.DataFrame) -> str:
    """A Markdown table, numbers with one decimal and aligned right."""

    def shown(value: object) -> str:
        if isinstance(value, float):
            return "" if pd.isna(value) else f"{value:.1f}"
        return str(value)

    numeric = [pd.api.types.is_numeric_dtype(table[name]) for name in table]
    rule = ("---:" if right else "---" for right in numeric)
    rows = (map(shown, row) for row in table.itertuples(index=False))
    return "\n".join(map(markdown_row, (map(str, table.columns), rule, *rows)))
