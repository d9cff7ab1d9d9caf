"""Sizes of a step, from the name of the range that an engine opens around it.

vLLM       execute_context_2(14721)_generation_0(0), (tokens_squares), and with every sum
           execute_8192_context_9(sq..sk..sqsq..sqsk..)_generation_37(sq..sk..sqsq..sqsk..)
SGLang     step[EXTEND bs=15 toks=15360], step[DECODE bs=32 g_sk=..], step[MIXED c=2 g=3 ..]
ATOM       prefill[bs=2 tok=14721 ..], decode[bs=117/128 tok=117 ..]
TensorRT   [Executor] _forward_step 7: 2 ctx reqs, 512 ctx tokens, 30 gen reqs

sq is the sum of new tokens over the requests, sk the sum of tokens attended to (new ones included),
sqsq and sqsk the sums of the products q * q and q * k.

Sources: github.com/vllm-project/vllm (vllm/v1/worker), github.com/sgl-project/sglang
(srt/model_executor), github.com/NVIDIA/TensorRT-LLM (_torch/pyexecutor), and the annotations that
github.com/AMD-AGI/TraceLens documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of a step that are in prefill, or that are in decode.

    count: number of requests.  new_tokens, attended: sums over them, None where the name does not
    state them.
    """

    count: int
    new_tokens: int | None = None
    attended: int | None = None


NOBODY = Requests(0, 0, 0)


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step as described by its range's name.  prompts: requests in prefill.  answers: requests in
    decode.
    """

    name: str
    engine: str
    prompts: Requests
    answers: Requests

    @property
    def phase(self) -> str:
        """ "prefill", "decode", or "mixed" for both at once."""
        if self.prompts.count and self.answers.count:
            return "mixed"
        return "prefill" if self.prompts.count else "decode"

    @property
    def tokens(self) -> int | None:
        """New tokens of the step, None where the name does not state them."""
        parts = (self.prompts.new_tokens, self.answers.new_tokens)
        return None if None in parts else sum(filter(None, parts))


_VLLM = re.compile(r"execute_(?:\d+_)?context_(\d+)\(([^)]*)\)_generation_(\d+)\(([^)]*)\)")
_VLLM_SUMS = re.compile(r"(sqsq|sqsk|sq|sk)(\d+)")
_SGLANG = re.compile(r"step\[(EXTEND|DECODE|MIXED|TARGET_VERIFY) bs=(\d+)([^\]]*)\]")
_ATOM = re.compile(r"(prefill|decode)\[bs=(\d+)(?:/\d+)? tok=(\d+)(.*)\]")
_TRTLLM = re.compile(
    r"(?:_forward_step[ \d]*|executeStep): (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs"
)
_PAIR = re.compile(r"\b(\w+)=(\d+)\b")


def named_step(name: str) -> NamedStep | None:
    """The step that a range's name describes; None for names without sizes."""
    for read in (_of_vllm, _of_sglang, _of_atom, _of_trtllm):
        step = read(name)
        if step is not None and step.prompts.count + step.answers.count:
            return step
    return None


def _of_vllm(name: str) -> NamedStep | None:
    found = _VLLM.search(name)
    if found is None:
        return None
    prompts, answers = (_vllm_requests(int(found[at]), found[at + 1]) for at in (1, 3))
    return NamedStep(name, "vllm", prompts, answers)


def _vllm_requests(count: int, inner: str) -> Requests:
    """Requests of vLLM's brackets: "14721", "888_788544" or all four sums."""
    if not count:
        return NOBODY
    sums = {key: int(value) for key, value in _VLLM_SUMS.findall(inner)}
    if sums:
        return Requests(count, sums.get("sq"), sums.get("sk"))
    tokens = inner.partition("_")[0]
    return Requests(count, int(tokens) if tokens.isdigit() else None)


def _of_sglang(name: str) -> NamedStep | None:
    found = _SGLANG.search(name)
    if found is None:
        return None
    kind, size, sums = found[1], int(found[2]), {k: int(v) for k, v in _PAIR.findall(found[3])}
    prompts = answers = NOBODY
    if kind == "EXTEND":
        prompts = Requests(size, sums.get("c_sq", sums.get("toks")), sums.get("c_sk"))
    elif kind == "MIXED":
        if not {"c", "g"} <= set(sums):
            return None
        prompts = Requests(sums["c"], sums.get("c_sq"), sums.get("c_sk"))
        answers = Requests(sums["g"], sums.get("g_sq"), sums.get("g_sk"))
    else:
        new = size if kind == "DECODE" else None
        answers = Requests(size, sums.get("g_sq", new), sums.get("g_sk"))
    return NamedStep(name, "sglang", prompts, answers)


def _of_atom(name: str) -> NamedStep | None:
    found = _ATOM.search(name)
    if found is None:
        return None
    sums = {key: int(value) for key, value in _PAIR.findall(found[4])}
    requests = Requests(int(found[2]), int(found[3]), sums.get("sk"))
    if found[1] == "prefill":
        return NamedStep(name, "", requests, NOBODY)
    if sums.get("p"):
        return None  # some prompts are counted with the answers, in one sum
    return NamedStep(name, "", NOBODY, requests)


def _of_trtllm(name: str) -> NamedStep | None:
    found = _TRTLLM.search(name)
    if found is None:
        return None
    prompts = Requests(int(found[1]), int(found[2]) if found[2] else None)
    answers = Requests(int(found[3]), int(found[3]))
    return NamedStep(name, "trtllm", prompts if prompts.count else NOBODY, answers)
