"""A rank's own program, run as the only one of its job; for two of them see `test_distributed`."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import MeasurementError
from profilers.collect import cases
from profilers.collect.measured_model import RunSettings, build, pick_device
from profilers.collect.rank import main, split_over_ranks


@pytest.fixture
def only_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment that torchrun gives to a rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**job, "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))


@pytest.mark.usefixtures("only_rank")
def test_a_rank_leaves_the_times_of_its_steps(tmp_path: Path, tiny_llama: dict[str, Any]) -> None:
    settings = RunSettings(tiny_llama, isl=4, osl=3, device="cpu", dtype="float32", repeats=2)
    told = json.dumps(dataclasses.asdict(settings))
    (tmp_path / "settings.json").write_text(told, encoding="utf-8")
    main(tmp_path)
    result = json.loads((tmp_path / "rank_0.json").read_text(encoding="utf-8"))
    assert len(result["phases"]["prefill"]) == 2 and len(result["phases"]["decode"]) == 4
    assert min(result["phases"]["decode"]) > 0
    assert result["collectives"] == []  # a single rank exchanges nothing
    assert result["facts"]["backend"] == "gloo" and result["facts"]["dtype"] == "float32"


@pytest.mark.usefixtures("only_rank")
def test_a_sum_over_the_ranks_is_a_case_of_its_message() -> None:
    import torch.distributed as dist

    assert cases.collectives() == []
    dist.init_process_group("gloo")
    try:
        case = cases.all_reduce(2**14)
        assert cases.collectives() == []
    finally:
        dist.destroy_process_group()
    assert (case.dims, case.fmt) == ({"bytes": 16384.0, "group": 1.0}, "gloo.all_reduce")


@pytest.mark.parametrize(
    ("changed", "ranks", "said"),
    [
        ({}, 3, "num_attention_heads 4 does not divide by 3"),
        ({}, 4, "num_key_value_heads 2 does not divide by 4"),
        ({"intermediate_size": 191}, 2, "intermediate_size 191 does not divide by 2"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(tiny_llama, changed, ranks, said) -> None:
    settings = RunSettings(tiny_llama | changed, device="cpu", dtype="float32")
    model, _ = build(settings, pick_device("cpu"))
    with pytest.raises(MeasurementError, match=said):
        split_over_ranks(model, ranks, "cpu")


def test_a_decoder_of_other_names_is_refused() -> None:
    """GPT-2 has one product for queries, keys and values, and its config states no KV heads."""
    small = {"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 100}
    settings = RunSettings({"architectures": ["GPT2LMHeadModel"], **small}, dtype="float32")
    model, _ = build(settings, pick_device("cpu"))
    with pytest.raises(MeasurementError, match="this architecture is not supported"):
        split_over_ranks(model, 2, "cpu")
