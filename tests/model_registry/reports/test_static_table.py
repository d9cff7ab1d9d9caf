"""Static tables compared with corrected references of another tool, and their renderers."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import model_registry
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from model_registry.reports.static_table import (
    OperatorRow,
    StaticTable,
    as_csv,
    as_json,
    as_markdown,
    as_text,
    bytes_text,
    flops_text,
    static_table,
)
from tests.model_registry.shared_models import built

GOLDEN = Path(__file__).parents[2] / "golden" / "tra_references.json"
CASES = json.loads(GOLDEN.read_text())["cases"]
LLAMA = "meta-llama/Llama-3.1-8B"


def rows(table: StaticTable, *names: str) -> list[OperatorRow]:
    return [row for row in table.rows if row.node in names]


def config_of(case: dict[str, Any]) -> dict[str, Any]:
    config = dict(case["config"])
    if config["model_type"] == "llama4":
        return {"model_type": "llama4", "text_config": {**config, "model_type": "llama4_text"}}
    return config


def opened(case: dict[str, Any], origin: str) -> Model:
    if origin == "builder":
        return model_registry.load(config_of(case))
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")
    return model_registry.traced(config_of(case))


@pytest.mark.by_day(9)
@pytest.mark.parametrize("origin", ["builder", "trace"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_tables_give_the_corrected_references(case: dict[str, Any], origin: str) -> None:
    table = static_table(
        opened(case, origin), case["cached_tokens"], case["input_tokens"], case["queries"]
    )
    reference = case["reference"]
    assert rows(table, "qkv_proj")[0].flops == reference["QKV_Proj_flops_2mnk"]
    assert rows(table, "o_proj")[0].flops == reference["O_Proj_flops_2mnk"]
    assert rows(table, "lm_head")[0].flops == reference["LMHead_flops_last_token_only"]
    attention = max(rows(table, "attention"), key=lambda row: row.flops)
    assert attention.flops == reference["SDPA_flops_causal_exact"]
    assert table.storage.kv_cache == reference["kv_cache_bytes_total"]


def test_queries_that_differ_are_one_batch() -> None:
    model = built(LLAMA)
    table = static_table(model, [1_048_576, 1024], [1, 1], batch_size=2)
    (attention,) = rows(table, "attention")
    assert attention.flops == 4 * 32 * 128 * (1_048_577 + 1025)
    assert rows(table, "qkv_proj")[0].flops == 2 * 2 * 4096 * 6144
    assert table.storage.kv_cache == 32 * 2 * 8 * 128 * 2 * (1_048_577 + 1025)


def test_a_longer_batch_repeats_the_queries() -> None:
    model = built(LLAMA)
    two, four = (static_table(model, [9, 5], [1, 1], batch_size=size) for size in (2, 4))
    assert rows(four, "attention")[0].flops == 2 * rows(two, "attention")[0].flops


def test_blocks_count_the_layers_that_have_a_node() -> None:
    table = static_table(built("meta-llama/Llama-4-Scout-17B-16E-Instruct"), [20_000])
    chunked, full = sorted(rows(table, "attention"), key=lambda row: -row.blocks)
    assert (chunked.blocks, chunked.of_blocks, full.blocks, full.of_blocks) == (36, 48, 12, 48)
    assert chunked.flops < full.flops


def test_the_total_is_the_sum_over_all_blocks() -> None:
    table = static_table(built("mistralai/Mixtral-8x7B-v0.1"), [500], [1])
    for figure in ("flops", "weight_bytes", "input_bytes", "output_bytes", "kv_bytes"):
        total = sum(getattr(row, figure) * row.count for row in table.rows)
        assert getattr(table.total, figure) == pytest.approx(total)


def test_storage_names_the_experts_that_rest_and_the_table() -> None:
    model = built("mistralai/Mixtral-8x7B-v0.1")
    storage = static_table(model, [500], [1]).storage
    expert = 3 * 4096 * 14336 * 2
    assert storage.inactive_experts == 32 * 6 * expert
    assert storage.embedding_table == 32000 * 4096 * 2
    held = storage.weights + storage.inactive_experts + storage.embedding_table
    assert held == pytest.approx(2 * model.parameters)


@pytest.mark.parametrize(
    ("cached", "new", "batch", "words"),
    [([1, 2], [1, 1, 1], None, "2 cached and 3 input token counts do not pair up"),
     ([1, 2], [1], 3, "a batch of 3 is not a multiple of the 2 queries; give 2 or 4"),
     ([-1], [1], 1, "cached_tokens is -1; give 0"), ([0], [0], 1, "input_tokens is 0; give 1"),
     ([], [], None, "0 cached and 0 input"), ([float("nan")], [1], 1, "cached_tokens is NaN"),
     ([0], [1], 0, "batch_size is 0; give 1"), ([10**400], [1], 1, "cached_tokens is 1.00000e"),
     ([0], [1], 10**400, "batch_size is 1.00000e")],
)  # fmt: skip
def test_queries_that_cannot_run_are_refused(
    cached: list[float], new: list[float], batch: int | None, words: str
) -> None:
    with pytest.raises(InvalidValue, match=words):
        static_table(built(LLAMA), cached, new, batch)


def test_renderers_are_of_the_same_table() -> None:
    table = static_table(built(LLAMA), [1024], [1])
    lines = list(csv.DictReader(io.StringIO(as_csv(table))))
    data = json.loads(as_json(table))
    assert [line["node"] for line in lines[:-1]] == [row["node"] for row in data["rows"]]
    assert float(lines[-1]["flops"]) == data["total"]["flops"] == table.total.flops
    nodes = [line["node"] for line in lines]
    text, markdown = as_text(table).splitlines(), as_markdown(table).splitlines()
    shown = [line for line in text[:-2] if not line.startswith("-")]
    assert [re.split(r"  +", line)[0] for line in shown] == ["Node", *nodes]
    cells = [line.strip("| ").split(" | ") for line in markdown[:-2]]
    assert [row[0] for row in cells] == ["Node", ":--", *nodes]
    qkv = ["qkv_proj", "32 / 32", "50.33 MFLOP", "48.00 MiB", "8.00 KiB", "12.00 KiB", "0.00 B"]
    assert next(row for row in cells if row[0] == "qkv_proj")[:7] == qkv
    assert re.split(r"  +", next(line for line in shown if line.startswith("qkv")))[:7] == qkv
    storage = "13.98 GiB (weights) + 128.12 MiB (KV cache) + 1002.00 MiB (embedding table)"
    assert text[-1] == markdown[-1] == f"Minimum storage: {storage} = 15.08 GiB"


def test_units_are_written_as_the_field_does() -> None:
    assert flops_text(21.87e12) == "21.87 TFLOP"
    assert bytes_text(13 * 2**30) == "13.00 GiB"
    assert bytes_text(0) == "0.00 B"
