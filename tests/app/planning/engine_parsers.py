"""The argument parsers of serving engines, where their packages are installed."""

from __future__ import annotations

import argparse
import importlib
import os


def of_vllm(module: str) -> argparse.ArgumentParser:
    """vLLM's parser of `vllm serve` or `vllm bench serve`.

    Raises:
        ImportError: vLLM, or what it needs, is not installed.
    """
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    parser = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    if module == "bench":
        importlib.import_module("vllm.benchmarks.serve").add_cli_args(parser)
        return parser
    made: argparse.ArgumentParser = importlib.import_module(
        "vllm.entrypoints.common.cli_args"
    ).make_arg_parser(parser)
    return made


def of_sglang(package: str) -> argparse.ArgumentParser:
    """SGLang's parser of its server ("server") or of its router.

    Raises:
        ImportError: as `of_vllm`.
    """
    parser = argparse.ArgumentParser()
    if package == "router":
        importlib.import_module("sglang_router.router_args").RouterArgs.add_cli_args(parser)
    else:
        importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return parser
