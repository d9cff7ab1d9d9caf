"""Examples of bodies, as the OpenAPI document shows them."""

from collections.abc import Mapping
from typing import Any

_LLAMA = "meta-llama/Llama-3.1-8B"
#: Example lines by description.
LINES: Mapping[str, str] = {
    "users": "llama 8b on h100 vllm 16 users 1k/256",
    "a rate and a target": "llama 70b fp8 on 8 h100 vllm 20/s 2k/500 p99 tpot<30ms",
}
#: Example studies by description.
STUDIES: Mapping[str, Any] = {
    "more bandwidth": {
        "title": "H200 with more bandwidth",
        "question": {"model": _LLAMA, "system": "h200", "batch": 16},
        "chips": [{"name": "H200"}, {"name": "twice the bandwidth", "bandwidth": 2}],
        "formats": [{"name": "bf16"}, {"name": "fp8", "weights": "fp8", "kv": "fp8"}],
    },
}
#: For each verb: example bodies by description.
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "estimate": {
        "one batch": {"model": _LLAMA, "system": "h100", "engine": "vllm", "batch": 16,
                      "isl": 2048, "osl": 256},
        "batches side by side": {"model": _LLAMA, "system": "h200", "batch": [1, 8, 64]},
    },
    "serve": {
        "users": {"model": _LLAMA, "system": "h100", "engine": "vllm", "concurrency": [1, 32, 256]},
        "an arrival rate": {"model": _LLAMA, "system": "h100", "engine": "sglang", "rate": 4,
                            "isl": 2048, "osl": 256},
    },
    "simulate": {
        "an arrival rate": {"model": _LLAMA, "system": "h100", "engine": "vllm", "rate": 4,
                            "requests": 200, "osl": 128, "ttft_target_s": 0.5},
        "a trace": {"model": _LLAMA, "system": "h100", "engine": "vllm",
                    "trace": "arrival_s,input_tokens,output_tokens\n0,512,64\n0.5,900,32\n"},
    },
    "sweep": {
        "batch and tp": {"model": _LLAMA, "system": "h100", "batch": [1, 8, 64], "tp": [1, 2]},
        "two systems under load": {"model": _LLAMA, "system": ["h100", "h200"],
                                   "concurrency": {"from": 1, "to": 64, "step": "x2"}},
    },
    "plan": {
        "a rate and a target": {"model": _LLAMA, "system": ["h100"], "rate": 4,
                                "target": "ttft_p95 < 500ms, tpot < 20ms", "top": 3},
        "manifests": {"model": _LLAMA, "system": ["h100"], "engine": "vllm", "rate": 4,
                      "pools": "aggregated", "simulate": False, "deployment": "kubernetes"},
    },
    "fleet": {
        "two models on four machines": {
            "machines": [{"system": "h100", "devices": 8, "count": 2, "owned": True},
                         {"system": "l40s", "devices": 4, "count": 2, "price": 1.0}],
            "question": {"engine": "vllm", "simulate": False},
            "models": [{"name": "chat", "model": _LLAMA, "rate": 60, "target": "tpot < 20ms"},
                       {"name": "batch", "model": _LLAMA, "rate": 400, "priority": 2}],
        },
    },
    "sensitivity": {
        "a batch and a target": {"model": _LLAMA, "system": "h100", "batch": 16,
                                 "target": "tpot < 10ms"},
    },
    "economics": {
        "rented beside an API": {"model": _LLAMA, "system": "h100", "concurrency": 64,
                                 "price": 2.5, "api_in": 0.2, "api_out": 0.2},
    },
    "ops": {
        "two caches": {"model": _LLAMA, "cached_tokens": [1048576, 1024], "input_tokens": 1},
        "a prompt with an image": {"model": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
                                   "input_tokens": 128, "images": 1, "image_size": "672x672"},
    },
    "scale": {
        "a day under an autoscaler": {"model": _LLAMA, "system": "h100", "engine": "vllm",
                                      "rate": 4, "requests": 500, "policy": "keda",
                                      "ttft_target_s": 0.5, "tpot_target_s": 0.02},
    },
    "availability": {
        "three nines": {"model": _LLAMA, "system": "h100", "engine": "vllm", "rate": 30,
                        "requests": 1000, "ttft_target_s": 0.5, "share": 99.9, "lost": 1},
    },
    "routing": {
        "one expert with half of the rows": {
            "model": "mistralai/Mixtral-8x7B-v0.1", "system": "h100", "tp": 4, "ep": 4, "batch": 64,
            "statistics": [[700, 100, 100, 100, 100, 100, 100, 100]], "copies": [0, 4],
        },
    },
    "export": {
        "a decode step on two devices": {"model": _LLAMA, "system": "h100", "tp": 2, "batch": 8},
    },
    "tune": {
        "what to run next": {"model": _LLAMA, "system": "h100", "engine": "vllm", "concurrency": 64,
                             "max_num_seqs": [16, 32, 64], "kv": ["checkpoint", "fp8"],
                             "target": "tpot < 20ms",
                             "measured": [{"setting": {"max_num_seqs": 64, "kv": "fp8"},
                                           "figures": {"output_tokens_per_s": 2900,
                                                       "tpot": 0.019}}]},
        "a dry run": {"model": _LLAMA, "system": "h100", "engine": "vllm", "concurrency": 16,
                      "osl": 64, "max_num_seqs": [4, 8, 16], "dry_run": True, "runs": 3},
    },
}  # fmt: skip
