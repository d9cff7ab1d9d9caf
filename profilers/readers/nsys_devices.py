"""The GPUs of an Nsight Systems export, and which of them ran each kernel.

A kernel names its device by the CUDA ordinal of its process; TARGET_INFO_CUDA_DEVICE says which
GPU that is.  The table may be missing, and TARGET_INFO_GPU may list GPUs that ran nothing, in any
order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.readers.database import ABSENT, Database
from profilers.schema import DeviceInfo

_GPU = "TARGET_INFO_GPU"
_ORDINALS = "TARGET_INFO_CUDA_DEVICE"
_GPU_COLUMNS = (
    "totalMemory",
    "memoryBandwidth",
    "clockRate",
    "smCount",
    "l2CacheSize",
    "computeMajor",
    "computeMinor",
    "smMajor",
    "smMinor",
)


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of an export.

    listed: devices that ran kernels, or all devices where none did.  of_kernel: index of the device
    of each kernel, as in `DeviceInfo.index`.
    """

    listed: tuple[DeviceInfo, ...]
    of_kernel: NDArray[np.int64]


def read_devices(
    database: Database, ordinal: NDArray[np.int64], process: NDArray[np.int64]
) -> Devices:
    """The devices behind the CUDA ordinals of kernels.

    Args:
        ordinal, process: deviceId and globalPid, one entry a kernel.
    """
    gpus = _gpus(database)
    index = _gpu_ids(database, ordinal, process)
    used = sorted(pd.unique(index).tolist()) if len(index) else sorted(gpus)
    return Devices(tuple(gpus.get(i, DeviceInfo(index=i if i >= 0 else None)) for i in used), index)


def _gpu_ids(
    database: Database, ordinal: NDArray[np.int64], process: NDArray[np.int64]
) -> NDArray[np.int64]:
    """GPU of each (process, ordinal); the ordinal itself where the export does not map it."""
    rows = database.integers(_ORDINALS, ("gpuId", "cudaId", "pid"))
    mapped = {
        (pid, cuda): gpu
        for gpu, cuda, pid in zip(*(rows[c].tolist() for c in rows), strict=True)
        if gpu >= 0
    }
    place, processes = pd.factorize(process)
    codes, pairs = pd.factorize(place * np.int64(1 << 32) + np.clip(ordinal, -1, 1 << 30) + 1)
    pids = ((processes >> 24) & 0xFFFFFF).tolist()
    keys = [(pids[pair >> 32], (pair & 0xFFFFFFFF) - 1) for pair in pairs.tolist()]
    gpus = [mapped.get(key, key[1]) for key in keys]
    return np.array(gpus, dtype=np.int64)[codes] if gpus else ordinal


def _gpus(database: Database) -> dict[int, DeviceInfo]:
    """{id: device} of TARGET_INFO_GPU; old exports have no ids and list devices in order."""
    id_column = "id" if "id" in database.columns(_GPU) else "deviceId"
    rows = database.integers(_GPU, ("rowid", id_column, *_GPU_COLUMNS))
    names = dict(database.texts(_GPU, "rowid", "name"))
    return {
        gpu: _device(gpu, names.get(rowid, ""), {c: int(rows[c][place]) for c in _GPU_COLUMNS})
        for place, rowid in enumerate(rows["rowid"].tolist())
        if (gpu := _id(int(rows[id_column][place]), place)) >= 0
    }


def _id(stated: int, place: int) -> int:
    return place if stated == ABSENT else stated


def _device(index: int, name: str, values: dict[str, int]) -> DeviceInfo:
    given = {column: value for column, value in values.items() if value > 0}
    major = given.get("computeMajor", given.get("smMajor"))
    minor = values["computeMinor"] if "computeMajor" in given else values["smMinor"]

    def number(column: str) -> float | None:
        return float(given[column]) if column in given else None

    return DeviceInfo(
        index=index,
        name=name[:200],
        units=given.get("smCount"),
        memory_bytes=number("totalMemory"),
        memory_bytes_per_s=number("memoryBandwidth"),
        clock_hz=number("clockRate"),
        l2_bytes=number("l2CacheSize"),
        compute_capability=f"{major}.{max(minor, 0)}" if major else None,
    )
