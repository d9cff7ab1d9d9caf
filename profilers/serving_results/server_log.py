"""What a server prints when it starts: version, limits, parallel degrees, size of its cache.

Reads the logs of vLLM (non-default arguments, the engine's config, the size of its cache), SGLang
(`server_args=ServerArgs(...)` and the line of `max_total_num_tokens`), TensorRT-LLM (`TRTGptModel`,
the paged cache, arguments of trtllm-serve) and llama.cpp's server (build, slots, context, batch).
Where several lines state a figure, the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from genz_core.common.short_repr import shortened
from genz_core.errors import ReportError
from profilers.serving_results.measurement import ServingMeasurement, Stated

#: Only this many bytes are read; a server prints all of this before its first request.
_READ_BYTES = 4_000_000
_HEAD_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class ServerLog:
    """What a log states.  stated: value and source line, by parameter."""

    engine: str
    stated: Mapping[str, Stated]
    file: str = ""

    @property
    def sentences(self) -> list[str]:
        """Every figure with the line that states it."""
        return [f"{name} {one.value}: {one.evidence}" for name, one in self.stated.items()]


def _key(*names: str, value: str = r"([\d,.]+)") -> str:
    """A pattern for `name=1`, `name: 1` and `'name': 1`, for any of several names."""
    return rf"\b(?:{'|'.join(names)})['\"]?\s*[=:]\s*{value}"


_WORD = r"['\"]?([\w.+-]+)"
#: By engine: text that only it prints, and patterns of the figures that it states, by parameter.
_ENGINES: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "vllm": (
        r"vLLM API server version|Initializing (?:an?|a V\d) (?:V\d )?LLM engine",
        {
            "engine_version": (
                r"vLLM API server version v?([\w.+]+)", r"LLM engine \(v?([\w.+]+)\)",
            ),
            "max_num_seqs": (_key("max_num_seqs"),),
            "max_num_batched_tokens": (_key("max_num_batched_tokens"),),
            "memory_fraction": (_key("gpu_memory_utilization"),),
            "kv_tokens": (r"GPU KV cache size:\s*([\d,]+) tokens",),
            "tp": (_key("tensor_parallel_size"),),
            "pp": (_key("pipeline_parallel_size"),),
            "dp": (_key("data_parallel_size"),),
            "kv": (_key("kv_cache_dtype", value=_WORD),),
            "weights": (_key("quantization", value=_WORD),),
        },
    ),
    "sglang": (
        r"server_args=ServerArgs\(|max_total_num_tokens=\d+, chunked_prefill_size",
        {
            "engine_version": (r"sglang(?:\s*==\s*|[ -]v|\s+version[:=]?\s*v?)(\d[\w.+]*)",),
            "max_num_seqs": (_key("max_running_requests"),),
            "max_num_batched_tokens": (_key("chunked_prefill_size"),),
            "memory_fraction": (_key("mem_fraction_static"),),
            "kv_tokens": (_key("max_total_num_tokens"),),
            "tp": (_key("tp_size"),),
            "pp": (_key("pp_size"),),
            "kv": (_key("kv_cache_dtype", value=_WORD),),
            "weights": (_key("quantization", value=_WORD),),
        },
    ),
    "trtllm": (
        r"\[TensorRT-LLM\]|\[TRT-LLM\]|TensorRT-LLM version",
        {
            "engine_version": (r"TensorRT-LLM version:\s*v?([\w.+]+)",),
            "max_num_seqs": (_key("max_batch_size"), r"TRTGptModel maxBatchSize:\s*(\d+)"),
            "max_num_batched_tokens": (
                _key("max_num_tokens"), r"TRTGptModel maxNumTokens:\s*(\d+)",
            ),
            "memory_fraction": (
                _key("free_gpu_memory_fraction", "kv_cache_free_gpu_mem(?:ory)?_fraction"),
            ),
            "kv_tokens": (
                r"max tokens in paged KV cache \((\d+)\)",
                r"Using (\d+) (?:total )?tokens in paged KV cache",
            ),
            "tp": (_key("tensor_parallel_size", "tp_size"),),
            "pp": (_key("pipeline_parallel_size", "pp_size"),),
        },
    ),
    "llama.cpp": (
        r"llama_model_loader:|llama_new_context_with_model:|llama_context:|new slot,? n_ctx",
        {
            "engine_version": (r"\bbuild(?:\s*[:=]\s*|_info:\s*b?)(\d{3,5})",
                               r"^version: (\d{3,5})\b"),
            "max_num_seqs": (_key("n_slots", "n_parallel", "n_seq_max"),),
            "max_num_batched_tokens": (r"llama_\w+:\s*n_batch\s*=\s*(\d+)",),
            "kv_tokens": (r"llama_\w+:\s*n_ctx\s*=\s*(\d+)",),
        },
    ),
}  # fmt: skip
_NUMBERS = ("max_num_seqs", "max_num_batched_tokens", "kv_tokens", "tp", "pp", "dp")
_NONE = ("none", "null", "auto", "-1", "0", "")


def is_log(path: Path) -> bool:
    """Whether a file is a server's log: lines of one of the engines, and not a document."""
    return is_text(_text(path, _HEAD_BYTES))


def is_text(text: str) -> bool:
    """Whether a text is a server's log."""
    return _engine(text) != ""


def read(path: Path, label: str = "") -> ServerLog:
    """What a server's log states.

    Raises:
        ReportError: it cannot be read, or is not a log of a known engine.
    """
    return parse(_text(path, _READ_BYTES), label or path.name)


def parse(text: str, label: str = "") -> ServerLog:
    """What the text of a log states; see `read`."""
    engine = _engine(text)
    if not engine:
        names = ", ".join(_ENGINES)
        raise ReportError(f"{label}: not a log of a known server ({names})")
    _, patterns = _ENGINES[engine]
    stated: dict[str, Stated] = {"engine": Stated(engine, "lines that only it prints")}
    for name, tried in patterns.items():
        if (found := _last(text, name, tried)) is not None:
            stated[name] = found
    if engine == "llama.cpp":
        slots = set(re.findall(r"id\s+(\d+)\s*\|[^\n]*new slot", text))
        if slots:
            words = f"{len(slots)} lines of a new slot"
            stated["max_num_seqs"] = Stated(len(slots), words)
        if "engine_version" in stated:
            build = stated["engine_version"]
            stated["engine_version"] = replace(build, value=f"b{build.value}")
    return ServerLog(engine, stated, label)


def with_logs(
    measurements: Iterable[ServingMeasurement], logs: Sequence[ServerLog]
) -> list[ServingMeasurement]:
    """Measurements completed with what the logs of their server state."""
    told = {name: one for log in logs for name, one in log.stated.items()}
    return [replace(one, stated={**one.stated, **told}) for one in measurements]


def _last(text: str, name: str, patterns: Sequence[str]) -> Stated | None:
    """The last valid figure of a parameter, with its line."""
    hits = [hit for pattern in patterns for hit in re.finditer(pattern, text, re.MULTILINE)]
    for hit in sorted(hits, key=lambda one: -one.start()):
        value = _value(name, hit[1])
        if value is not None:
            start = text.rfind("\n", 0, hit.start()) + 1
            near = text[max(start, hit.start() - 30) : hit.end() + 20].partition("\n")[0]
            return Stated(value, f"the server's log: {shortened(near.strip(), 80)}")
    return None


def _value(name: str, written: str) -> int | float | str | None:
    """A figure in the form that its parameter takes, None for one that states nothing."""
    written = written.strip(".,'\"")
    if written.casefold() in _NONE:
        return None
    try:
        if name in _NUMBERS:
            return int(written.replace(",", ""))
        if name == "memory_fraction":
            share = float(written)
            return share if 0.0 < share <= 1.0 else None
    except ValueError:
        return None
    return written


def _engine(text: str) -> str:
    # JSON, unlike a line of a log
    if text.lstrip()[:1] in ("{", "["):
        first = text.lstrip().partition("\n")[0]
        if not re.match(r"\[(?:\d{4}-|TensorRT|TRT|\d\d)", first):
            return ""
    return next((name for name, (mark, _) in _ENGINES.items() if re.search(mark, text)), "")


def _text(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(most)
    except OSError:
        return ""
    return "" if b"\0" in head[:4096] else head.decode("utf-8", "replace")
