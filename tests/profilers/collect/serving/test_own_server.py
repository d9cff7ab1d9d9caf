"""transformers' own server with a tiny model: started, used and ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from genz_core.common.progress import Cancelled
from genz_core.errors import MeasurementError
from profilers.collect.serving import closed_loop, own_server, prompts, result_file
from profilers.collect.serving.client import Server
from profilers.collect.serving.closed_loop import ClosedLoop
from profilers.collect.serving.own_server import ServerSettings


@pytest.fixture
def model(tmp_path: Path, tiny_llama: dict[str, Any]) -> Path:
    folder = tmp_path / "model"
    own_server.write_model(folder, {**tiny_llama, "eos_token_id": None, "bos_token_id": None})
    return folder


@pytest.fixture
def installed() -> None:
    for name in ("fastapi", "uvicorn", "openai", "accelerate"):
        pytest.importorskip(name)


@pytest.mark.slow
def test_a_checkpoint_has_weights_a_tokenizer_of_words_and_its_config(model):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    assert len(tokenizer("time year people way")["input_ids"]) == 4
    assert (model / "model.safetensors").stat().st_size > 0
    assert transformers.AutoConfig.from_pretrained(model).vocab_size == 256


def test_without_the_servers_libraries_a_sentence_says_what_to_install(monkeypatch):
    found = own_server.importlib.util.find_spec
    monkeypatch.setattr(
        own_server.importlib.util, "find_spec", lambda n: None if n == "fastapi" else found(n)
    )
    with pytest.raises(
        MeasurementError, match=r"needs fastapi; run: .* -m pip install 'transformers\[serv"
    ):
        own_server.check_installed()


@pytest.mark.slow
def test_a_server_that_cannot_start_gives_its_last_line(installed, tmp_path, model):
    (model / "model.safetensors").unlink()
    with (
        pytest.raises(MeasurementError, match="transformers serve did not start: "),
        own_server.running(model, ServerSettings(), tmp_path / "log"),
    ):
        pass


@pytest.mark.slow
def test_a_start_can_be_cancelled(installed, tmp_path, model):
    with (
        pytest.raises(Cancelled, match="starting the server"),
        own_server.running(model, ServerSettings(), tmp_path / "log", lambda: True),
    ):
        pass


@pytest.mark.slow
def test_a_real_server_streams_every_token_that_was_asked(installed, tmp_path, model):
    settings = ServerSettings(blocks=16, block_tokens=16, batch_tokens=64)
    with own_server.running(model, settings, tmp_path / "log") as started:
        server, asked = prompts.probe(started.server)
        assert (asked.fixed, asked.per_word, asked.counted) == (0, 1, True)
        load = ClosedLoop(2, 6, isl=24, osl=8, length_ratio=0.5)
        served = closed_loop.serve(server, asked, load)
        wrong = Server(server.address, "no/such-model")
        with pytest.raises(MeasurementError, match="refused model 'no/such-model' with HTTP 400"):
            prompts.probe(wrong)
        assert started.cpu_s() > 0
    for answer, lengths in zip(served.answers, load.lengths(), strict=True):
        assert (answer.prompt_tokens, answer.output_tokens) == lengths
        assert len(answer.chunks_s) == lengths[1]
    figures = result_file.figures(served)
    assert 0 < figures["tpot_mean_s"] < figures["ttft_p99_s"] < figures["e2e_p99_s"]
    with pytest.raises(MeasurementError, match="cannot be reached"):
        prompts.probe(server)  # it ended with the context
