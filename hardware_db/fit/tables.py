"""Operator tables of aiconfigurator-core (Apache-2.0, NVIDIA) as measured series.

Each reader gives a tidy table with the dimensions of `OperatorPoints`, `latency_s`, `fmt` and
`shape`, the shape family that held-out splits keep together.  The tables measure kernels in loops,
so `warm_cache` is true for all of them, which the profile's cache constants account for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from genz_core.common.installation import pip_install
from genz_core.errors import MissingSpec
from genz_core.latency.measured_operators import OperatorPoints

PACKAGE = "aiconfigurator-core"
#: Folders of the package's tables; each is an alias of a system in hardware_db.
DEVICES = (
    "a100_sxm",
    "b200_sxm",
    "b300_sxm",
    "b60",
    "gb200",
    "gb300",
    "h100_sxm",
    "h200_sxm",
    "l40s",
    "rtx_pro_6000_server",
)
_FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "sq": "int8",
    "int8_wo": "int8_weight_only",
    "int4_wo": "int4_weight_only",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}
_ROUTING = {"balanced": 0.0, "power_law_1.01": 1.0, "power_law_1.2": 2.0}
#: Queries per key head above which decode leaves the fast kernels of the measured engine.
_MAX_GROUP = 32


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Points of one class and format on one device: dimensions, times and shape families.

    table: one row per point, with columns as in the module's docstring.
    warm_cache: small operands stayed in the last-level cache between runs.
    """

    device: str
    operator: str
    fmt: str
    table: pd.DataFrame
    data_set: str
    warm_cache: bool = True

    def points(self, rows: pd.DataFrame | None = None) -> OperatorPoints:
        """Rows of the table (default: all) as points."""
        rows = self.table if rows is None else rows
        names = [name for name in rows.columns if name not in ("latency_s", "fmt", "shape")]
        return OperatorPoints(
            self.operator,
            self.fmt,
            {name: rows[name].to_numpy(np.float64) for name in names},
            rows["latency_s"].to_numpy(np.float64),
            warm_cache=self.warm_cache,
            source=self.data_set,
        )


def package_version() -> str:
    """The version of the tables' package that is installed."""
    return version(PACKAGE)


def data_folder() -> Path:
    """Folder of the tables.

    Raises:
        MissingSpec: the package is not installed.
    """
    spec = find_spec("aiconfigurator_core")
    if spec is None or not spec.submodule_search_locations:
        raise MissingSpec(f"the tables of {PACKAGE} are not installed; run: {pip_install(PACKAGE)}")
    return Path(next(iter(spec.submodule_search_locations))) / "systems" / "data"


def read(device: str, operator: str) -> list[MeasuredSeries]:
    """All series of a class on a device, sorted by format; empty where none was measured."""
    series = []
    for path, table in _READERS[operator](data_folder() / device):
        source = f"{PACKAGE} {package_version()}: {path.relative_to(data_folder().parent)}"
        for fmt, rows in table.groupby("fmt", sort=True):
            rows = rows[rows["latency_s"] > 0].drop(columns="fmt").reset_index(drop=True)
            if len(rows) >= _LEAST_POINTS:
                series.append(MeasuredSeries(device, operator, str(fmt), rows, source))
    unique = {entry.fmt: entry for entry in reversed(series)}
    return [unique[fmt] for fmt in sorted(unique)]


_LEAST_POINTS = 8


def _newest(folder: Path, pattern: str) -> Path | None:
    """The file of the newest version that matches `pattern` (its parent folder is the version)."""

    def version(path: Path) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", path.parent.name)]

    return max(folder.glob(pattern), key=version, default=None)


def _load(folder: Path, room: str, table: str, backends: tuple[str, ...]) -> list[Path]:
    """The newest file of each backend that has the table, the preferred backend first."""
    paths = (_newest(folder, f"{room}/{backend}/*/{table}.parquet") for backend in backends)
    return [path for path in paths if path is not None]


_Tables = list[tuple[Path, pd.DataFrame]]
#: TensorRT-LLM is the reference; where it measured nothing, the next engine is used.
_ENGINES = ("trtllm", "vllm", "sglang")


def _gemm(folder: Path) -> _Tables:
    tables = []
    for path in _load(folder, "gemm", "gemm_perf", _ENGINES)[:1]:
        raw = pd.read_parquet(path)
        table = raw[["m", "n", "k"]].assign(
            fmt=raw["gemm_dtype"].map(_FORMATS),
            latency_s=raw["latency"] * 1e-3,
            shape=raw.groupby(["n", "k"]).ngroup(),
        )
        if folder.name == "b60":  # no 8-bit matrix units, so its fp8 rows measure an emulation
            table = table[table["fmt"] == "bf16"]
        tables.append((path, table))
    return tables


def _attention(folder: Path, table_name: str) -> tuple[Path, pd.DataFrame] | None:
    paths = _load(folder, "attention", table_name, _ENGINES)
    if not paths:
        return None
    raw = pd.read_parquet(paths[0])
    kv_heads = np.where(
        raw["num_key_value_heads"] > 0, raw["num_key_value_heads"], raw["num_heads"]
    )
    window = raw.get("window_size", 0)
    table = pd.DataFrame(
        {
            "sequences": raw["batch_size"],
            "new_tokens": raw["isl"],
            "cached_tokens": raw["step"],
            "heads": raw["num_heads"],
            "kv_heads": kv_heads,
            "head_dim": raw["head_dim"],
            "window": window,
            "fmt": _sixteen(raw["attn_dtype"]) + "/" + _sixteen(raw["kv_cache_dtype"]),
            "latency_s": raw["latency"] * 1e-3,
        }
    )
    table["shape"] = table.groupby(["heads", "kv_heads", "head_dim", "window"]).ngroup()
    return paths[0], table


def _sixteen(names: pd.Series) -> pd.Series:
    return names.str.replace("bfloat16", "bf16")


def _prefill(folder: Path) -> _Tables:
    """Prompts of at least two tokens; a step of one token is priced as decode."""
    tables = _attention(folder, "context_attention_perf")
    if not tables:
        return []
    path, table = tables
    return [(path, table[table["new_tokens"] > 1])]


def _decode(folder: Path) -> _Tables:
    tables = _attention(folder, "generation_attention_perf")
    if not tables:
        return []
    path, table = tables
    return [(path, table[table["heads"] / table["kv_heads"] <= _MAX_GROUP])]


def _mla(folder: Path, table_name: str, dims: Mapping[str, float]) -> _Tables:
    """Latent attention of DeepSeek-V3's shape: a latent of 512 and a rotary part of 64."""
    tables = []
    for path in _load(folder, "mla", table_name, _ENGINES)[:1]:
        raw = pd.read_parquet(path)
        table = pd.DataFrame(
            {
                "sequences": raw["batch_size"],
                "new_tokens": raw["isl"],
                "cached_tokens": raw["step"],
                "heads": raw["num_heads"],
                "kv_heads": raw["num_heads"] if dims["kv_heads"] == 0 else dims["kv_heads"],
                "head_dim": dims["head_dim"],
                "value_dim": dims["value_dim"],
                "fmt": _sixteen(raw["mla_dtype"]) + "/" + _sixteen(raw["kv_cache_dtype"]),
                "latency_s": raw["latency"] * 1e-3,
                "shape": raw.groupby(["num_heads", "batch_size"]).ngroup(),
            }
        )
        tables.append((path, table))
    return tables


def _mla_prefill(folder: Path) -> _Tables:
    tables = _mla(folder, "context_mla_perf", {"kv_heads": 0, "head_dim": 192, "value_dim": 128})
    return [(path, table[table["new_tokens"] > 1]) for path, table in tables]


def _mla_decode(folder: Path) -> _Tables:
    return _mla(folder, "generation_mla_perf", {"kv_heads": 1, "head_dim": 576, "value_dim": 512})


def _moe(folder: Path) -> _Tables:
    """The gated grouped products; other engines only add formats that the first engine lacks."""
    tables = []
    for path in _load(folder, "moe", "moe_perf", _ENGINES):
        raw = pd.read_parquet(_fullest(folder) if "trtllm" in path.parts else path)
        raw = raw[raw["moe_dtype"].isin(_FORMATS) & raw["distribution"].isin(_ROUTING)]
        raw = raw[~raw["kernel_source"].str.contains("min_latency|nongated|situ")]
        raw = raw[
            raw["kernel_source"] == raw.groupby("moe_dtype")["kernel_source"].transform(_mode)
        ]
        if raw.empty:
            continue
        shape = ["hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"]
        table = pd.DataFrame(
            {
                "tokens": raw["num_tokens"],
                "experts": np.maximum(raw["num_experts"] / raw["moe_ep_size"], 1.0),
                "experts_total": raw["num_experts"],
                "top_k": raw["topk"],
                "hidden": raw["hidden_size"],
                "intermediate": raw["inter_size"] / raw["moe_tp_size"],
                "routing": raw["distribution"].map(_ROUTING),
                "fmt": raw["moe_dtype"].map(_FORMATS),
                "latency_s": raw["latency"] * 1e-3,
                "shape": raw.groupby(shape).ngroup(),
            }
        )
        tables.append((path, table))
    return tables


def _mode(names: pd.Series) -> str:
    return str(names.mode().iloc[0])


def _fullest(folder: Path) -> Path:
    """The version of TensorRT-LLM with the most rows, since the newest one only adds a few
    models.
    """
    versions = sorted(folder.glob("moe/trtllm/*/moe_perf.parquet"))
    return max(versions, key=lambda file: len(pd.read_parquet(file, columns=["latency"])))


def _gated_delta(folder: Path) -> _Tables:
    """Gated delta rule kernels (without the short convolution), prefill and decode."""
    tables = []
    for path in _load(folder, "linear_attention", "gdn_perf", ("vllm", "sglang", "trtllm"))[:1]:
        raw = pd.read_parquet(path)
        raw = raw[~raw["kernel_source"].str.contains("conv1d")]
        prefill = raw["phase"] == "context"
        table = pd.DataFrame(
            {
                "sequences": raw["batch_size"],
                "new_tokens": np.where(prefill, raw["seq_len"], 1),
                "heads": raw["num_v_heads"],
                "key_dim": raw["head_k_dim"],
                "value_dim": raw["head_v_dim"],
                "fmt": np.where(prefill, "prefill", "decode"),
                "latency_s": raw["latency"] * 1e-3,
                "shape": raw.groupby(["num_v_heads", "num_k_heads"]).ngroup(),
            }
        )
        tables.append((path, table))
    return tables


def _quantise(folder: Path) -> _Tables:
    """Scaling a 16-bit tensor to 8 bits: the measured pass closest to pure memory traffic."""
    tables = []
    for path in _load(folder, "quantize", "scale_matrix_perf", ("vllm", "sglang", "trtllm"))[:1]:
        raw = pd.read_parquet(path)
        table = pd.DataFrame(
            {
                "bytes": raw["m"] * raw["k"] * 3.0,
                "fmt": "default",
                "latency_s": raw["latency"] * 1e-3,
                "shape": raw.groupby("k").ngroup(),
            }
        )
        tables.append((path, table))
    return tables


_OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def _collective(folder: Path) -> _Tables:
    tables = []
    for backend, algorithm in (("nccl", "nccl"), ("oneccl", "nccl"), ("trtllm", "custom")):
        name = "custom_allreduce_perf" if algorithm == "custom" else f"{backend}_perf"
        for path in _load(folder, "comm", name, (backend,)):
            tables.append((path, _messages(pd.read_parquet(path), algorithm)))
    return tables


def _messages(raw: pd.DataFrame, algorithm: str) -> pd.DataFrame:
    types = next(raw[name] for name in raw.columns if name.endswith("dtype"))
    raw = raw[types.isin(["half", "bfloat16", "fp16", "float16"])]
    if "backend" in raw:
        raw = raw[~raw["backend"].astype(str).str.contains("eager")]
    keys = ["op_name", "num_gpus", "message_size"]
    raw = raw.groupby(keys)["latency"].median().reset_index()
    return pd.DataFrame(
        {
            "bytes": raw["message_size"] * 2.0,
            "group": raw["num_gpus"],
            "fmt": algorithm + "." + raw["op_name"].map(_OPERATIONS),
            "latency_s": raw["latency"] * 1e-3,
            "shape": np.log2(raw["message_size"]).round().astype(int),
        }
    )


_READERS: Mapping[str, Callable[[Path], _Tables]] = {
    "gemm": _gemm,
    "prefill_attention": _prefill,
    "decode_attention": _decode,
    "mla_prefill": _mla_prefill,
    "mla_decode": _mla_decode,
    "moe": _moe,
    "scan": _gated_delta,
    "pointwise": _quantise,
    "collective": _collective,
}
