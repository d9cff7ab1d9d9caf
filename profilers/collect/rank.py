"""A rank of a tensor-parallel run: `torchrun -m profilers.collect.rank FOLDER`.

Reads FOLDER/settings.json and leaves FOLDER/rank_<n>.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from genz_core.errors import MeasurementError, RidgelineError
from profilers.collect.cases import collectives
from profilers.collect.clock import Clock
from profilers.collect.measured_model import RunSettings, build, first_line, pick_device
from profilers.collect.microbenchmarks import run_suite
from profilers.collect.model import one_request

#: Linear layers whose outputs, or inputs, are split over the ranks, by transformers' names.
_BY_COLUMN = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_BY_ROW = ("o_proj", "down_proj")


def main(folder: Path) -> None:
    """Join the group, split the model, time it in step with the other ranks, write the result."""
    import torch
    import torch.distributed as dist

    raw = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    settings = RunSettings(**raw)
    device = _own_device(settings.device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        torch.manual_seed(0)
        model, _ = build(settings, device)
        split_over_ranks(model, dist.get_world_size(), device.type)
        sums = collectives()
        result = {
            "phases": _timed(model, settings, Clock(device, "wall")),
            "collectives": run_suite(device, sums, in_step=True).rows() if sums else [],
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "",
            "facts": {
                "backend": dist.get_backend(),
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "dtype": settings.dtype,
            },
        }
        path = folder / f"rank_{dist.get_rank()}.json"
        path.write_text(json.dumps(result), encoding="utf-8")
    finally:
        dist.destroy_process_group()


def _own_device(name: str) -> Any:
    """The torch device of this rank; on CUDA that of its local number."""
    import torch

    device = pick_device(name)
    if device.type != "cuda":
        return device
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def split_over_ranks(model: Any, ranks: int, device_type: str) -> None:
    """Split attention heads and feed-forward width of a decoder over the ranks, in place.

    Raises:
        MeasurementError: heads that the ranks do not divide, or linear layers with other names.
    """
    if ranks == 1:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    config = model.config.get_text_config()
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        size = getattr(config, name, None)  # a family without such a size may use other names
        if size is not None and int(size) % ranks:
            raise MeasurementError(f"{name} {size} does not divide by {ranks}")
    plan: dict[str, Any] = {}
    for path, _ in model.named_modules():
        last = path.rpartition(".")[2]
        if last in _BY_COLUMN:
            plan[path] = ColwiseParallel()
        elif last in _BY_ROW:
            plan[path] = RowwiseParallel()
    if not plan:
        raise MeasurementError(
            "no linear layers named q_proj, gate_proj ... to split; this architecture is "
            "not supported"
        )
    parallelize_module(model, init_device_mesh(device_type, (ranks,)), plan)


def _timed(model: Any, settings: RunSettings, clock: Clock) -> dict[str, list[float]]:
    """Seconds of both phases, with all ranks starting each request together."""
    import torch.distributed as dist

    prefills: list[float] = []
    decodes: list[float] = []
    for number in range(settings.warmup + settings.repeats):
        dist.barrier()
        first, steps = one_request(model, settings, clock)
        if number >= settings.warmup:
            prefills.append(first)
            decodes.extend(steps)
    return {"prefill": prefills, "decode": decodes}


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (RidgelineError, RuntimeError, MemoryError) as error:
        print(f"ridgeline rank: {first_line(error)}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None
