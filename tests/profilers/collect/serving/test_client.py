"""A streamed completion: its times, its tokens, and a sentence for every fault of a server."""

from __future__ import annotations

import itertools
import socket
import time

import numpy as np
import pytest

from genz_core.errors import MeasurementError
from profilers.collect.serving.client import Server, complete, models
from profilers.collect.serving.prompts import probe
from tests.profilers.collect.serving.sse_server import FIXED, PER_WORD, serving


def asked(server, tokens=8, words=5, **fields):
    return complete(Server(server.address, "small", **fields), "word " * words, tokens)


@pytest.mark.slow
def test_every_piece_has_the_time_at_which_it_came():
    with serving(first_s=0.15, gap_s=0.03) as server:
        began = time.perf_counter()
        answer = asked(server)
    wrote = server.wrote_s[0]
    assert len(answer.chunks_s) == len(wrote) == 8
    late = np.array(answer.chunks_s) - wrote
    assert (late >= 0).all() and np.median(late) < 0.02
    assert began <= answer.sent_s < wrote[0]
    assert answer.ttft_s >= 0.15 and answer.e2e_s >= 0.15 + 7 * 0.03


def test_tokens_are_those_that_the_server_counts():
    with serving(per_piece=4) as server:
        answer = asked(server, tokens=8, words=5)
    assert len(answer.chunks_s) == 2
    assert (answer.prompt_tokens, answer.output_tokens) == (FIXED + 5 * PER_WORD, 8)


def test_a_server_that_does_not_count_leaves_zero():
    with serving(usage=False) as server:
        answer = asked(server)
    assert (answer.prompt_tokens, answer.output_tokens) == (0, 0)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_an_address_may_end_as_clients_write_it(path):
    with serving() as server:
        assert complete(Server(server.address + path, "small"), "a b", 2).output_tokens == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("ends_early", "after 2 pieces without a finish_reason"),
        ("breaks_off", "before its answer was complete"),
        ("never_answers", "before its answer was complete"),
        ("writes_nothing", "without any text"),
        ("garbage", "no stream of completions but '<html>"),
        ("no_json", "no stream of completions but 'data: {not json'"),
        ("strange_choices", "no stream of completions"),
        ("fails", "CUDA out of memory"),
        ("overloaded", "HTTP 503: queue is full"),
    ],
)
def test_a_faulty_server_gets_one_sentence_with_its_address(fault, words):
    with serving(fault=fault) as server, pytest.raises(MeasurementError) as error:
        asked(server)
    message = str(error.value)
    assert words in message and server.address in message and "\n" not in message


@pytest.mark.parametrize("fault", ["hangs", "drips"])
def test_a_server_that_hangs_is_left_after_the_time_of_a_request(fault):
    began = time.perf_counter()
    with (
        serving(fault=fault) as server,
        pytest.raises(MeasurementError, match=r"did not finish a request within 0\.4 s"),
    ):
        asked(server, timeout_s=0.4)
    assert time.perf_counter() - began < 5.0


def test_a_server_that_is_not_there_gets_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            MeasurementError, match=r"cannot be reached .*refused.*start the server"
        ):
            complete(Server(address, "small"), "a", 1)


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://host", "http://", "http://h:0x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(MeasurementError, match="is not the address of a server"):
        Server(address, "small")


# ------------------------------------------------------------------------------- asking first


def test_a_probe_finds_how_the_server_counts_tokens():
    with serving() as server:
        _, prompts = probe(Server(server.address, "small"))
        text = prompts.of(129)
    assert (prompts.fixed, prompts.per_word, prompts.counted) == (FIXED, PER_WORD, True)
    assert FIXED + PER_WORD * len(text.split()) == 129
    assert text != prompts.of(129)


def test_without_counts_a_word_is_a_token():
    with serving(usage=False) as server:
        _, prompts = probe(Server(server.address, "small"))
    assert not prompts.counted and len(prompts.of(100).split()) == 100


FIELDS = ("ignore_eos", "stream_options")


@pytest.mark.parametrize(
    ("unknown", "left"), [((), FIELDS), (("ignore_eos",), FIELDS[1:]), (FIELDS, ())]
)
def test_fields_that_a_server_does_not_know_are_left_out(unknown, left):
    with serving(unknown=unknown) as server:
        found, _ = probe(Server(server.address, "small"))
        complete(found, "a b", 2)
    assert tuple(found.body) == left
    assert [name for name in FIELDS if name in server.bodies[-1]] == list(left)


def test_the_only_model_need_not_be_named():
    with serving() as server:
        found, _ = probe(Server(server.address, ""))
    assert found.model == "small"


@pytest.mark.parametrize(
    ("named", "served", "words"),
    [
        ("large", ("small",), "refused model 'large' with HTTP 404: .* it serves small"),
        ("", ("small", "tiny"), "give the name of a model that .*; it lists small, tiny"),
        ("", (), "give the name of a model that .*; it lists none"),
    ],
)
def test_a_wrong_or_missing_model_is_named_with_those_that_are_served(named, served, words):
    with serving(models=served) as server, pytest.raises(MeasurementError, match=words):
        probe(Server(server.address, named))


def test_a_server_without_a_list_of_models_lists_none():
    with serving() as server:
        assert models(Server(server.address + "/elsewhere", "")) == []


def test_gaps_are_those_between_writes():
    with serving(gap_s=0.05) as server:
        answer = asked(server, tokens=12)
    mine = np.diff(answer.chunks_s)
    theirs = [after - before for before, after in itertools.pairwise(server.wrote_s[0])]
    assert np.mean(mine) == pytest.approx(np.mean(theirs), abs=0.01)
