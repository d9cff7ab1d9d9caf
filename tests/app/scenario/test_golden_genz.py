"""FLOPs and bytes equal another tool's where both count the same.

Known differences: GenZ computes the full attention square, ours is causal; it runs the classifier
on every prompt token, ours on the last; it splits attention into Logit and Attend, whose score
matrix our fused operator keeps on chip.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import model_registry
from genz_core.graphs import Op
from genz_core.types import Parallelism, Step
from tests.rules import for_every

MIB = 2.0**20
NAMES = {"QKV": "qkv_proj", "Out Proj": "o_proj", "up+gate": "gate_up_proj", "down": "down_proj",
         "classifier": "lm_head"}  # fmt: skip
GOLDEN = Path(__file__).parents[2] / "golden" / "genz_operators.csv"
with GOLDEN.open(encoding="utf-8") as handle:
    ROWS = list(csv.DictReader(handle))
PRODUCTS = [
    row
    for row in ROWS
    if row["layer"] in NAMES and (row["layer"] != "classifier" or row["stage"] == "decode")
]
POINTS = sorted({(row["point"], row["stage"]) for row in ROWS})


def _ops(row: dict[str, str]) -> dict[str, Op]:
    batch, isl, osl, tp = (int(row[name]) for name in ("batch", "isl", "osl", "tp"))
    prefill = row["stage"] == "prefill"
    step = Step.prefill(batch, isl) if prefill else Step.decode(batch, isl + osl - 1)
    graph = model_registry.load(row["model"]).graph(step, Parallelism(tp=tp))
    return {op.name: op for op in graph.ops}


@for_every(PRODUCTS)
def test_a_matrix_product_has_the_same_flops_and_bytes(row):
    ours = _ops(row)[NAMES[row["layer"]]]
    bias = float(ours.flops) - 2.0 * float(ours.dims["m"]) * ours.dims["n"] * ours.dims["k"]
    held_bias = float(ours.dims["n"]) * 2.0 if bias else 0.0
    assert float(ours.flops) - bias == pytest.approx(float(row["mflop"]) * 1e6)
    assert float(ours.input_bytes) == pytest.approx(float(row["input_a_mib"]) * MIB)
    assert float(ours.weight_bytes) - held_bias == pytest.approx(float(row["input_w_mib"]) * MIB)
    assert float(ours.output_bytes) == pytest.approx(float(row["output_mib"]) * MIB)


@pytest.mark.parametrize(("point", "stage"), POINTS)
def test_fused_attention_is_their_logit_and_attend(point, stage):
    rows = {r["layer"]: r for r in ROWS if (r["point"], r["stage"]) == (point, stage)}
    example = next(iter(rows.values()))
    ours = _ops(example)["attention"]
    isl = int(example["isl"])
    parts = ["Logit", "Attend"] if stage == "prefill" else [
        "Logit Pre", "Logit Suf", "Attend Pre", "Attend Suf"
    ]  # fmt: skip
    theirs = sum(float(rows[part]["mflop"]) for part in parts) * 1e6
    causal = (isl + 1) / (2 * isl) if stage == "prefill" else 1.0
    assert float(ours.flops) == pytest.approx(theirs * causal)
    cache = sum(float(rows[part]["input_w_mib"]) for part in parts) * MIB
    held = float(ours.held_kv_bytes)
    assert held == pytest.approx(cache)
    queries = float(rows[parts[0]]["input_a_mib"]) * MIB
    new_kv = float(ours.kv_write_bytes)
    assert float(ours.input_bytes) == pytest.approx(queries + new_kv)
    output = float(rows[parts[-1]]["output_mib"]) * MIB
    assert float(ours.output_bytes) == pytest.approx(output)
