"""Expert statistics read and priced: `ridgeline routing`."""

import json

import pytest

from app.decide.routing import read_counts, routing
from app.question.query import ask
from app.scenario import results
from genz_core.errors import InvalidValue
from tests.app.commands.test_cli import run

MODEL = "Qwen/Qwen3-235B-A22B"
#: Two layers of 128 experts, a quarter of which get three times the rows of the others.
COUNTS = [[3.0] * 32 + [1.0] * 96, [1.0] * 96 + [3.0] * 32]


def asked(**more):
    return ask(
        "estimate", {"model": MODEL, "system": "h200", "tp": 8, "ep": 8, "batch": 256, **more}
    )


def test_tables_and_lists_are_the_same_counts():
    lines = [
        f"{layer},{expert},{COUNTS[layer][expert]:g}" for layer in (0, 1) for expert in range(128)
    ]
    table = "\n".join(["layer_id,expert_id,count", *lines])
    lists = (json.dumps(COUNTS), json.dumps({"logical_count": [COUNTS]}))
    assert all((read_counts(text) == read_counts(table)).all() for text in lists)


def test_uneven_experts_are_priced_as_the_busiest_rank_and_copies_gain():
    """In ranks of sixteen, 48 rows are on two of them and 24 on average: a factor of two; copies
    even it out.
    """
    rows = routing(asked(), read_counts(json.dumps(COUNTS)), [0, 8, 64])
    assert rows[0]["busiest_rank"] == pytest.approx(48 / 24)
    same = results.estimate(asked(expert_imbalance=2.0))
    assert rows[0]["ttft_s"] == pytest.approx(same.ttft_s)
    assert all(1.0 <= row["busiest_rank"] < 1.1 for row in rows[1:])
    assert rows[1]["ttft_s"] < rows[0]["ttft_s"] and rows[1]["gain"] > 0.0
    held = [row["memory_bytes_per_device"] for row in rows]
    assert held[0] < held[1] < held[2]


def test_the_command_prints_the_rows(tmp_path):
    file = tmp_path / "experts.json"
    file.write_text(json.dumps(COUNTS))
    words = ("--statistics", str(file), "--system", "h200", "--tp", "8", "--ep", "8")
    rows = json.loads(run("routing", MODEL, *words, "--batch", "64", "--copies", "0,8", "--json"))
    assert [row["redundant_experts"] for row in rows] == [0, 8]
    rows = json.loads(run("routing", MODEL, *words, "--concurrency", "64", "--json"))
    assert [row["redundant_experts"] for row in rows] == [0, 8, 16, 32]


@pytest.mark.parametrize(
    ("text", "more", "copies", "sentence"),
    [
        ("a,b\n1,2", {}, [], "no columns layer_id"),
        ('{"x": [1]}', {}, [], "not lists of numbers"),
        ("[[1, 2], [3]]", {}, [], "not lists of numbers"),
        ("[[1, 2]]", {}, [], "routes to 128"),
        (json.dumps(COUNTS), {"ep": 1}, [], "single ep of 2 or more"),
        (json.dumps(COUNTS), {}, [3], "use 8 copies"),
    ],
)
def test_what_is_no_statistic_is_refused(text, more, copies, sentence):
    with pytest.raises(InvalidValue, match=sentence):
        routing(asked(**more), read_counts(text), copies)
