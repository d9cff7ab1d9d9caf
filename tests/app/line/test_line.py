"""A typed line as a question: any order of words, messages about each word, and the round trip."""

from __future__ import annotations

import random
from typing import Any

import pytest

import hardware_db
from app.line.line_answer import said
from app.line.line_parser import read
from app.line.line_text import written
from app.line.presets import MOST_OF_SHORTLIST, PRESETS, SHORTLIST, SHORTLIST_NOTE
from app.line.sentence import sentence, words
from app.line.unread import NotUnderstood, known_words
from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question
from genz_core.errors import InvalidValue
from tests.app.question.samples import another
from tests.draws import cases, seed
from tests.rules import for_every

LLAMA = "meta-llama/Llama-3.1-8B"
H100 = "h100-sxm5-80gb"


def test_the_documented_line_is_a_plan():
    line = read("llama 70b fp8 on 8 h100 vllm 20/s 2k/500 p99 tpot<30ms").understood()
    assert line.verb == "plan"
    assert line.given == {
        "model": "meta-llama/Llama-3.3-70B-Instruct", "system": H100, "engine": "vllm",
        "weights": "fp8", "rate": 20.0, "isl": 2000, "osl": 500, "target": ("tpot_p99 < 30ms",),
        "devices": "8:8",
    }  # fmt: skip
    assert any("meta-llama/Llama-3.1-70B" in note for note in line.notes), "what else it may be"


def test_a_question_may_ask_what_a_deployment_makes():
    asked = "How many tokens per second does gpt-oss-120b {} on one DGX Spark?"
    for verb in ("make", "produce", "generate", "deliver"):
        line = read(asked.format(verb)).understood()
        assert (line.given["model"], line.given["system"]) == ("openai/gpt-oss-120b", "gb10")
    assert read("llama-3.1-8b eagle 4 drafts").understood().given["draft_tokens"] == 4


PARTS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {"model": LLAMA},
    "h200": {"system": "h200-sxm-141gb"},
    "vllm 0.9.1": {"engine": "vllm", "engine_version": "0.9.1"},
    "fp8": {"weights": "fp8"},
    "kv fp8": {"kv": "fp8"},
    "16 users": {"concurrency": 16},
    "10k/1e2": {"isl": 10_000, "osl": 100},
    "90 % cached": {"prefix_hits": 0.9},
    "tp4": {"tp": 4},
    "max-num-seqs 256": {"max_num_seqs": 256},
    "--gpu-memory-utilization 0.8": {"memory_fraction": 0.8},
    "draft_tokens=2": {"draft_tokens": 2},
    "mtp": {"speculation": "mtp"},
}


@pytest.mark.by_day(1)
@pytest.mark.draws
@pytest.mark.parametrize("seed", [seed(at) for at in range(cases(12))])
def test_parts_are_understood_in_any_order(seed: int):
    parts = list(PARTS)
    random.Random(seed).shuffle(parts)
    line = read(" ".join(parts)).understood()
    wanted = {name: value for values in PARTS.values() for name, value in values.items()}
    assert line.given == wanted, " ".join(parts)
    assert line.verb == "serve"


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("20 req/s", {"rate": 20.0}),
        ("20 requests per second", {"rate": 20.0}),
        ("2k in, 300 out", {"isl": 2000, "osl": 300}),
        ("2Ki / 500", {"isl": 2048, "osl": 500}),
        ("batch 32", {"batch": 32}),
        ("think time 30 s", {"think_s": 30.0}),
        ("tpot p99 under 30 ms", {"target": ("tpot_p99 < 30ms",)}),
        ("cost<0.4 ttft<1s", {"target": ("usd_per_mtok < 0.4", "ttft < 1s")}),
        ("up to 8 x h100", {"system": H100, "devices": "1:8"}),
        ("2 to 16 h100", {"system": H100, "devices": "2:16"}),
        ("h100 5 users", {"system": H100, "concurrency": 5}),
        ("how much would it cost to serve 10/s on h100", {"system": H100, "rate": 10.0}),
        ("gaudi 3", {"system": "gaudi3"}), ("rtx 4090", {"system": "rtx-4090"}),
        ("8xh100", {"system": H100, "tp": 8}),
        ("2 nodes of 8 h100", {"system": H100, "tp": 16}),
        ("2x8 h100", {"system": H100, "tp": 16}), ("2 x 8 h100", {"system": H100, "tp": 16}),
        ("up to 2 servers with 8 x h100", {"system": H100, "devices": "1:16"}),
        ("8 gpus 4 users", {"tp": 8, "concurrency": 4}),
        ("8 h100 tp4 dp2", {"system": H100, "tp": 4, "dp": 2}),
        ("h100, h200 or mi300x", {"system": (H100, "h200-sxm-141gb", "mi300x")}),
        ("no prefix caching", {"prefix_caching": False}),
        ("random-input-len 2k", {"isl": 2000}),
        ("deepseek r1 8 h200", {"model": "deepseek-ai/DeepSeek-R1", "system": "h200-sxm-141gb",
                                "tp": 8}),
        ("agents", PRESETS["agents"]),
        ("agents 3/s", {n: v for n, v in PRESETS["agents"].items() if n != "concurrency"}
         | {"rate": 3.0}),
        ("100/20 chat", {**PRESETS["chat"], "isl": 100, "osl": 20}),
        ("tpu v5e 8 chips", {"system": "tpu-v5e", "tp": 8}),
        ("h100 x4", {"system": H100, "tp": 4}),
        ("h100 x 4", {"system": H100, "tp": 4}), ("does it fit on h100", {"system": H100}),
        ("prefix 80%", {"prefix_hits": 0.8}), ("tpot within 30 ms", {"target": ("tpot < 30ms",)}),
        ("within 50 ms tpot", {"target": ("tpot < 50ms",)}),
        ("batch size 64", {"batch": 64}), ("batch of 64", {"batch": 64}),
        ("10,000 users", {"concurrency": 10_000}),
        ("100 concurrent users 1k in 1k out", {"concurrency": 100, "isl": 1000, "osl": 1000}),
        ("3,600 requests per hour", {"rate": 1.0}), ("5 requests / min", {"rate": 5 / 60}),
        ("128k context", {"isl": 128_000}),
        ("ttft of a 100k prompt", {"isl": 100_000}), ("cost per million tokens on h100",
                                                      {"system": H100}),
        ("a single h100", {"system": H100}), ("rent of h100", {"system": H100}),
        ("h100 at $1.5 per hour", {"system": H100, "price": "1.5"}), ("$2/h", {"price": "2"}),
        ("90% prefix cache hits", {"prefix_hits": 0.9}), ("cached 90%", {"prefix_hits": 0.9}),
        ("lora rank 16 with 20 adapters", {"lora_rank": 16, "lora_adapters": 20}),
        ("h100 vs mi300x", {"system": (H100, "mi300x")}),
        ("how many h100", {"system": H100, "devices": "1:64", "rank": "devices"}),
        ("minimum gpus", {"devices": "1:64", "rank": "devices"}),
        ("8k prompts", {"isl": 8000}), ("prompts of 8k", {"isl": 8000}),
        ("ctx=32k", {"isl": 32_000}), ("2k+500", {"isl": 2000, "osl": 500}),
        ("3000 prompt tokens, 250 completion tokens", {"isl": 3000, "osl": 250}),
        ("avg prompt length 3000 and answer of 250", {"isl": 3000, "osl": 250}),
        ("4k token prompts, 1k responses", {"isl": 4000, "osl": 1000}),
        ("isl:2k osl:500", {"isl": 2000, "osl": 500}), ("bs 64 isl 1k", {"batch": 64, "isl": 1000}),
        ("1,5 rps", {"rate": 1.5}), ("2,5k/500", {"isl": 2500, "osl": 500}),
        ("1.000 users", {"concurrency": 1000}), ("1.500 rps", {"rate": 1.5}),
        ("0,9 memory fraction", {"memory_fraction": 0.9}),
        ("tp 1,2 h100", {"tp": (1, 2), "system": H100}),
        ("qps 5", {"rate": 5.0}), ("5 reqs/sec", {"rate": 5.0}), ("60 rpm", {"rate": 1.0}),
        ("2.628 million requests per month", {"rate": 1.0}),
        ("16 parallel requests", {"concurrency": 16}),
        ("64 requests in flight", {"concurrency": 64}),
        ("16 concurrent sessions", {"concurrency": 16}),
        ("speculative eagle", {"speculation": "eagle"}),
        ("eagle3 speculative decoding", {"speculation": "eagle"}),
        ("fp8 kv cache", {"kv": "fp8"}), ("fp8 kv bf16", {"weights": "fp8", "kv": "bf16"}),
        ("fp8 weights int8 kv", {"weights": "fp8", "kv": "int8"}),
        ("in 2k out 500", {"isl": 2000, "osl": 500}), ("max 16 users", {"concurrency": 16}),
        ("minimax m2", {"model": "MiniMaxAI/MiniMax-M2.5"}), ("m2", {"system": "m2-10core"}),
        ("tpu v7 x 4", {"system": "tpu-v7", "tp": 4}), ("8 h100 gpus", {"system": H100, "tp": 8}),
        ("h100:8", {"system": H100, "tp": 8}), ("8*h100", {"system": H100, "tp": 8}),
        ("deepseek v3 1000 users", {"model": "deepseek-ai/DeepSeek-V3", "concurrency": 1000}),
        ("cache hit rate 50%", {"prefix_hits": 0.5}), ("hit rate 0.5", {"prefix_hits": 0.5}),
        ("price $2.5/hr", {"price": "2.5"}),
        ("h100 gpu memory utilization 0.9", {"system": H100, "memory_fraction": 0.9}),
    ],
)  # fmt: skip
def test_a_phrase_is_its_parameters(text: str, given: dict[str, object]):
    assert read(text).understood().given == given


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("50 tokens/s each", "interactivity > 50"), ("50 tok/s/user", "interactivity > 50"),
        ("50 tokens per second per user", "interactivity > 50"), ("tpot 25ms", "tpot < 25ms"),
        ("p99 ttft of 2 s", "ttft_p99 < 2s"), ("slo ttft=500ms", "ttft < 500ms"),
        ("100ms ttft", "ttft < 100ms"), ("under 30 ms p99 tpot", "tpot_p99 < 30ms"),
        ("5k tok/s", "output_tokens_per_s > 5000"),
        ("36 million output tokens per hour", "output_tokens_per_s > 10000"),
        ("ttft < 0,5 s", "ttft < 0.5s"), ("cost < 0,4", "usd_per_mtok < 0.4"),
        ("itl < 20ms", "tpot < 20ms"), ("ttft max 500ms", "ttft < 500ms"),
        ("time to first token less than 300 milliseconds", "ttft < 300ms"),
        ("ttft latency below 300 ms", "ttft < 300ms"), ("p99 latency < 5 seconds", "e2e_p99 < 5s"),
        ("30 ms per token", "tpot < 30ms"),
        ("at least 50 tok/s per user", "interactivity > 50"),
    ],
)  # fmt: skip
def test_a_wanted_speed_or_latency_is_a_target(text: str, target: str):
    line = read(f"16 users {text} h100").understood()
    assert line.given["target"] == (target,) and line.verb == "plan"


@pytest.mark.parametrize("time", ["day", "hour", "minute"])
def test_tokens_per_time_without_a_load_are_the_requests_that_need_them(time: str):
    line = read(f"5 million tokens per {time} 1k/200").understood()
    seconds = {"day": 86_400, "hour": 3600, "minute": 60}[time]
    assert line.given["rate"] * 200 * seconds == pytest.approx(5e6)
    assert line.verb == "plan"


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("h100 16 users", "serve"), ("h100 batch 4", "estimate"), ("h100", "estimate"),
        ("3/s router round_robin", "simulate"), ("3/s tpot<20ms", "plan"),
        ("3/s up to 8 h100", "plan"), ("3/s h100 any engine", "plan"), ("simulate 3/s", "simulate"),
        ("economics 64 users", "economics"), ("monthly cost of 64 users on h100", "economics"),
        ("tco h100", "economics"), ("monthly cost for 3/s tpot<20ms", "plan"),
    ],
)  # fmt: skip
def test_a_line_suggests_its_verb(text: str, verb: str):
    assert read(text).understood().verb == verb


def test_a_name_that_fits_several_is_named_with_them():
    line = read("qwen3 on h100 for 16 users")
    assert "model" not in line.given and line.given["concurrency"] == 16
    with pytest.raises(NotUnderstood, match=r"'qwen3' fits .*Qwen/Qwen3-8B.*choose one of them"):
        line.understood()


@pytest.mark.parametrize(
    ("text", "word", "near"),
    [
        ("16 usrs", "usrs", "users"), ("on any", "any", "any engine"), ("vlm", "vlm", "vllm"),
        ("max-num-seq 5", "max-num-seq",
         "max num seqs"), ("4 bit", "bit", "int4"), ("my gpu", "gpu", "h100, h200, b200"),
        ("how users", "users", "64 users"), ("on cpu", "cpu", "epyc-9654"),
        ("ryzen cpu", "cpu", "epyc-9654"), ("speculative decoding", "speculative", "mtp"),
        ("max batch", "batch", "batch 32"),
        ("max throughput", "max", "64 users"), ("70b at q4", "70b", "Llama-3.3-70B-Instruct"),
        ("70b at q4", "q4", "q4_k_m"),
        ("sumaries", "sumaries", "summaries"), ("mi301x", "mi301x", "MI300X"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named_with_the_nearest(text: str, word: str, near: str):
    unread = {one.word: one for one in read(text).unread}
    assert near in unread[word].near
    with pytest.raises(NotUnderstood, match=f"{word!r} is not understood"):
        read(text).understood()


def test_a_question_for_a_system_compares_those_of_a_shortlist_with_a_published_rent():
    line = read("cheapest gpu for llama 8b at 5/s with ttft < 1s").understood()
    assert line.verb == "plan" and line.given["system"] == SHORTLIST
    assert line.given["devices"] == f"1:{MOST_OF_SHORTLIST}" and SHORTLIST_NOTE in line.notes
    assert all(hardware_db.load(slug).price_usd_per_hour for slug in SHORTLIST)
    named = read("cheapest gpu of h100 or l40s for llama 8b at 5/s").understood()
    assert named.given["system"] == (H100, "l40s") and SHORTLIST_NOTE not in named.notes


@pytest.mark.parametrize("words", ["how many users", "max concurrent users", "most users"])
def test_a_line_asks_for_the_largest_number_of_users(words: str):
    line = read(f"{words} can 8 h100 serve llama 70b tpot<50ms").understood()
    assert line.asks_users and line.verb == "plan" and "concurrency" not in line.given
    assert not read("how many h100 for 64 users of llama 70b").asks_users


def test_the_words_that_complete_a_line_are_those_that_it_understands():
    words = known_words()
    assert {"h200-sxm-141gb", "vllm", "users", "chat", "weights", "aggregated"} <= set(words)
    assert len(words) == len(set(words))
    for parameter in PARAMETERS:
        assert parameter.replace("_", " ") in words
    for word in (*PRESETS, "7 users", "h200", "sglang", "fp8"):
        assert not read(f"llama 8b {word}").unread


def test_what_cannot_be_denied_is_not_taken_as_said():
    (unread,) = read("llama-3.1-8b h100 no tp 4").unread
    assert unread.word == "no"


@pytest.mark.parametrize(
    "text",
    [
        "16 users 8 users", "isl 5 isl 6", "8 h100 tp4", "llama-3.1-8b qwen3-8b", "tp 0",
        "tpot > 30ms", "isl=many", "5 tok/s 6 tok/s", "150% cached", "--tp", "word " * 300,
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_is_refused_in_a_sentence(text: str):
    with pytest.raises(InvalidValue) as said:
        read(text)
    assert len(str(said.value).split()) > 3


# ------------------------------------------------------------------------------- round trip

#: Parameters that never contradict each other; one load is added to them.
_FREE = [one for one in PARAMETERS.values() if one.name not in ("moe_tp", "concurrency", "rate",
                                                                "trace", "batch")]  # fmt: skip


def drawn(one: Parameter, luck: random.Random) -> Any:
    """A random value of a parameter."""
    if not one.numeric:
        return another(one)
    high = min(one.most, one.least + 10.0 ** luck.randint(0, 6))
    value = luck.uniform(one.least, high)
    if one.kind == "whole":
        return max(int(one.least), int(value) // luck.choice((1, 1000)))
    return value or high


@pytest.mark.by_day(20)
@pytest.mark.draws
@pytest.mark.parametrize("seed", [seed(at) for at in range(cases(60))])
def test_a_written_question_reads_back_as_the_same(seed: int):
    luck = random.Random(seed)
    chosen = luck.sample(_FREE, luck.randint(0, 12))
    values: dict[str, Any] = {one.name: drawn(one, luck) for one in chosen}
    load = luck.choice(("batch", "concurrency", "rate", ""))
    values |= {load: drawn(PARAMETERS[load], luck)} if load else {}
    question = Question(**values)
    text = written(question)
    assert read(text).understood().question == question, text


@for_every(PARAMETERS)
def test_every_parameter_can_be_written_and_read(name: str):
    values: dict[str, Any] = {"tp": 2} if name == "moe_tp" else {}
    question = Question(**{**values, name: another(PARAMETERS[name])})
    assert read(written(question)).understood().question == question


def test_a_line_is_as_short_as_a_person_types_it():
    question = read("llama 8b h200 vllm fp8 16 users 2k/500 tp2").question
    assert written(question) == "h200-sxm-141gb vllm fp8 tp2 16 users 2k/500"
    assert written(STANDARD) == ""


def test_texts_with_quotes_and_blanks_come_back():
    question = Question(model='my "own" model\\.json', engine="my engine", placement="pp tp")
    assert read(written(question)).understood().question == question


# ------------------------------------------------------------------------------- sentence


def test_a_sentence_says_the_question_and_marks_what_a_verb_does_not_read():
    question = read("llama 8b fp8 h200 vllm 20/s 2k/500 tpot<30ms max-num-seqs 64").question
    parts = sentence(question, "serve")
    assert words(parts) == (
        "Serve Llama-3.1-8B in fp8 at 20 requests/s of 2,000 / 500 tokens with tpot < 30ms "
        "on 1 × h200-sxm-141gb under vllm, max num seqs 64"
    )
    assert [part.names for part in parts if not part.used] == [("target",)]
    assert [p.names for p in sentence(question, "estimate") if not p.used] == [("target",)]
    assert ("rate",) in [p.names for p in sentence(question, "ops") if not p.used]


def test_no_word_is_suggested_in_its_own_place():
    for word in ("clients", "weights", "isl"):
        (unread,) = [one for one in read(f"h100 {word}").unread if one.word == word]
        assert unread.near and word not in unread.near


def test_a_plan_says_that_it_searches_engine_and_layout():
    line = read("how many h100 for llama-3.1-8b at 20/s")
    assert "h100-sxm5-80gb (any layout) under any engine" in said(line)
    stated = read("llama-3.1-8b 20/s up to 8 h100 tp2 vllm")
    assert said(stated).endswith("up to 8 × h100-sxm5-80gb (TP2) under vllm")
    assert "under its default engine" in said(read("llama-3.1-8b 20 users h100"))
