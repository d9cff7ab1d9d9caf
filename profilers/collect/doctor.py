"""Checks of what this machine can measure, with advice on what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from genz_core.common.installation import pip_install_extra

Status = Literal["ok", "missing", "limited"]

#: Folders where the Nsight tools are looked for when they are not on the PATH.
_TOOL_FOLDERS = (
    "/usr/local/cuda/bin",
    "/opt/nvidia/nsight-systems/*/bin",
    "/opt/nvidia/nsight-compute/*",
    "/usr/lib/nsight-systems/bin",
    "/usr/lib/nsight-compute",
)


@dataclass(frozen=True, slots=True)
class Check:
    """A prerequisite of measuring.

    found: version or name.  enables: what needs it.  advice: how to install it, "" where it is
    present.
    """

    name: str
    status: Status
    found: str
    enables: str
    advice: str = ""

    def row(self) -> dict[str, Any]:
        return asdict(self)


def examine() -> list[Check]:
    """Run every check, each after those it builds on; a check that fails is "limited"."""
    return [_safely(name, check) for name, check in _CHECKS.items()]


def _safely(name: str, check: Callable[[], Check]) -> Check:
    """Run a check and turn its errors into a result: a broken tool must not end the examination."""
    try:
        return check()
    except (OSError, ValueError, RuntimeError, ImportError, AttributeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return Check(name, "limited", first[:120], "", "it is installed but does not answer")


def find_tool(name: str) -> str | None:
    """Path of nsys or ncu: on the PATH, or where NVIDIA's packages put them."""
    on_path = shutil.which(name)
    if on_path:
        return on_path
    for folder in _TOOL_FOLDERS:
        root, _, pattern = folder.partition("*")
        base = Path(root)
        places = sorted(base.glob(f"*{pattern}")) if pattern or "*" in folder else [base]
        for place in places:
            if os.access(place / name, os.X_OK):
                return str(place / name)
    return None


# ------------------------------------------------------------------------------- the checks


def _cpu() -> Check:
    from profilers.collect.machine import cpu

    processor = cpu()
    text = f"{processor.name}, {processor.cores} cores, {processor.memory_bytes / 2**30:.0f} GiB"
    return Check("cpu", "ok", text, "runs and calibration on the CPU")


def _torch() -> Check:
    enables = "running models, microbenchmarks, the torch profiler"
    if importlib.util.find_spec("torch") is None:
        return Check("torch", "missing", "", enables, pip_install_extra("profile"))
    import torch

    build = (
        f"CUDA {torch.version.cuda}"
        if torch.version.cuda
        else f"ROCm {torch.version.hip}"
        if torch.version.hip
        else "CPU only"
    )
    return Check("torch", "ok", f"{torch.__version__} ({build})", enables)


def _package(name: str, enables: str) -> Callable[[], Check]:
    def check() -> Check:
        try:
            return Check(name, "ok", importlib.metadata.version(name), enables)
        except importlib.metadata.PackageNotFoundError:
            return Check(name, "missing", "", enables, pip_install_extra("profile"))

    return check


def _driver() -> Check:
    from profilers.collect.machine import gpus

    enables = "power, clocks, memory and temperature while a run lasts"
    if importlib.util.find_spec("pynvml") is None:
        return Check("nvml", "missing", "", enables, pip_install_extra("profile"))
    devices = gpus()
    if not devices:
        advice = "needs an NVIDIA GPU and its driver; pass the GPU through to a container"
        return Check("nvml", "missing", "no NVIDIA driver answers", enables, advice)
    names = ", ".join(gpu.name for gpu in devices)
    return Check("nvml", "ok", f"driver {devices[0].driver}: {names}", enables)


def _accelerator() -> Check:
    enables = "runs on an accelerator"
    if importlib.util.find_spec("torch") is None:
        return Check("accelerator", "missing", "", enables, "install torch first")
    import torch

    if torch.cuda.is_available():  # needs a GPU
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Check("accelerator", "ok", ", ".join(names), enables)
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        return Check("accelerator", "ok", "Apple GPU (MPS)", enables)
    advice = "torch sees no GPU"
    if not (torch.version.cuda or torch.version.hip):
        advice += "; this build of torch has no GPU support, see pytorch.org/get-started"
    return Check("accelerator", "missing", "", enables, advice)


def _nsys() -> Check:
    enables = "GPU timelines (ridgeline collect nsys) and reading .nsys-rep files"
    path = find_tool("nsys")
    if path is None:
        advice = "install Nsight Systems: developer.nvidia.com/nsight-systems"
        return Check("nsys", "missing", "", enables, advice)
    return Check("nsys", "ok", _version([path, "--version"]), enables)


def _ncu() -> Check:
    enables = "counters of single kernels (ridgeline collect ncu)"
    path = find_tool("ncu")
    if path is None:
        advice = "install Nsight Compute: developer.nvidia.com/nsight-compute"
        return Check("ncu", "missing", "", enables, advice)
    version = _version([path, "--version"])
    if not counters_permitted():
        advice = (
            "counters are restricted to root: load the nvidia module with "
            "NVreg_RestrictProfilingToAdminUsers=0, or run as root (CAP_SYS_ADMIN in a container)"
        )
        return Check("ncu", "limited", version, enables, advice)
    return Check("ncu", "ok", version, enables)


def counters_permitted() -> bool:
    """Whether this user may read GPU counters: root, or any user where the driver permits.

    Source: NVIDIA, "Permission issue with Performance Counters" (ERR_NVGPUCTRPERM).
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return True
    params = Path("/proc/driver/nvidia/params")
    if not params.exists():
        return False
    text = params.read_text(encoding="ascii", errors="replace")
    return bool(re.search(r"RmProfilingAdminOnly:\s*0", text))


def _version(argv: list[str]) -> str:
    """The version in the output of a tool, or its first line."""
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=20, check=False, errors="replace"
    )
    match = re.search(r"\d+\.\d+(\.\d+)*", done.stdout)
    return match.group(0) if match else (done.stdout.strip().splitlines() or [""])[0][:80]


def _distributed() -> Check:
    enables = "tensor-parallel runs over several processes"
    if importlib.util.find_spec("torch") is None:
        return Check("distributed", "missing", "", enables, "install torch first")
    import torch.distributed as dist

    if not dist.is_available():
        return Check("distributed", "missing", "", enables, "this build of torch lacks it")
    backends = [
        name
        for name, there in (("nccl", dist.is_nccl_available()), ("gloo", dist.is_gloo_available()))
        if there
    ]
    return Check("distributed", "ok", ", ".join(backends), enables)


_CHECKS: dict[str, Callable[[], Check]] = {
    "cpu": _cpu,
    "torch": _torch,
    "transformers": _package("transformers", "models by name, folder or config"),
    "accelerator": _accelerator,
    "nvml": _driver,
    "distributed": _distributed,
    "nvtx": _package("nvtx", "named ranges in timelines, without a GPU build of torch"),
    "nsys": _nsys,
    "ncu": _ncu,
}
