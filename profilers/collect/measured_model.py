"""Models to measure, built by transformers, and the device that they run on."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from genz_core.common.installation import pip_install_extra
from genz_core.errors import MeasurementError
from profilers.schema import DeviceInfo

#: Attention implementations that transformers and torch provide; any other name may be code from
#: the hub.
ATTENTION = ("sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention")
#: Prefix of keys of a shipped config that do not belong to the model.
_OWN_PREFIX = "_"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Model, workload and repeats of a run.

    config: Hugging Face config as a mapping (random weights), or a folder or hub id with a
    checkpoint.  device: "auto", "cpu", "cuda", "mps".  dtype: torch's name.
    attention: one of `ATTENTION`.  compile: torch.compile the forward pass.
    layers: number of layers to keep, 0 for all.
    warmup, repeats: runs before and in the statistics.  profile: collect the operator table.
    trace_path: where the profiler's trace goes, "" for nowhere.
    nvtx_modules: an NVTX range around each module, beside those of the phases.
    activities: what the profiler records, () for the device's usual ones.  memory, stack: whether
    the trace holds allocations and source lines.
    """

    config: Mapping[str, Any] | str
    batch: int = 1
    isl: int = 512
    osl: int = 16
    device: str = "auto"
    dtype: str = "bfloat16"
    attention: str = "sdpa"
    compile: bool = False
    layers: int = 0
    warmup: int = 1
    repeats: int = 5
    profile: bool = True
    trace_path: str = ""
    nvtx_modules: bool = False
    activities: tuple[str, ...] = ()
    memory: bool = False
    stack: bool = False

    @property
    def name(self) -> str:
        """The id of the model, or its type."""
        if isinstance(self.config, str):
            return self.config
        return str(self.config.get("_id") or self.config.get("model_type", "config"))


def check_settings(settings: RunSettings) -> None:
    """Refuse sizes below their minimum and unknown attention implementations, before anything is
    built.

    Raises:
        MeasurementError: for the first such setting.
    """
    if settings.attention not in ATTENTION:
        raise MeasurementError(
            f"attention = {settings.attention[:60]!r}: choose {', '.join(ATTENTION)}"
        )
    for field, least in (("batch", 1), ("isl", 1), ("osl", 1), ("repeats", 1), ("warmup", 0)):
        value = getattr(settings, field)
        if value < least:
            raise MeasurementError(f"{field} = {value}: give a whole number of at least {least}")


def libraries() -> tuple[Any, Any]:
    """The modules torch and transformers.

    Raises:
        MeasurementError: one is not installed, with the command to install it.
    """
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise MeasurementError(f"{name} is not installed; run: {pip_install_extra('profile')}")
    import torch
    import transformers

    return torch, transformers


def build(settings: RunSettings, device: Any) -> tuple[Any, int]:
    """The model on `device` in evaluation mode, and its number of layers before any cut.

    Raises:
        MeasurementError: transformers cannot build it, or torch lacks the type.
        RuntimeError, MemoryError: it does not fit; see `is_out_of_memory`.
    """
    torch, _ = libraries()
    config = load_config(settings)
    text = text_config(config)
    layers = int(text.num_hidden_layers)
    if settings.layers:
        cut_layers(text, settings.layers)
    dtype = getattr(torch, settings.dtype, None)
    if device.type == "cpu" and not isinstance(settings.config, str):
        refuse_overcommit(_least_parameters(text) * getattr(dtype, "itemsize", 2))
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise MeasurementError(
            f"torch has no floating type {settings.dtype!r}; use bfloat16, float16 or float32"
        )
    try:
        model = _from_transformers(settings, config, dtype, device)
    except (ValueError, KeyError, OSError, ImportError, TypeError, AttributeError) as error:
        raise MeasurementError(
            f"transformers cannot build this model: {first_line(error)}"
        ) from None
    model.eval()
    if settings.compile:
        model.forward = torch.compile(model.forward)
    return model, layers


def _least_parameters(config: Any) -> float:
    """Lower bound of a decoder's parameters: its embedding and two products per layer."""
    width = float(config.hidden_size)
    layer = width * float(getattr(config, "intermediate_size", None) or 4 * width)
    return float(config.vocab_size) * width + config.num_hidden_layers * 2.0 * layer


def _from_transformers(settings: RunSettings, config: Any, dtype: Any, device: Any) -> Any:
    """The model on a device: a checkpoint is loaded through the host, random weights are made on
    the device.

    transformers needs another package to load a checkpoint directly under a default device.
    """
    torch, transformers = libraries()
    auto = transformers.AutoModelForCausalLM
    common = {
        "dtype": dtype,
        "attn_implementation": settings.attention,
        "trust_remote_code": False,
    }
    if isinstance(settings.config, str):
        return auto.from_pretrained(settings.config, config=config, **common).to(device)
    with torch.device(device):
        return auto.from_config(config, **common)


def load_config(settings: RunSettings) -> Any:
    """The config object of transformers; remote code is never run."""
    _, transformers = libraries()
    try:
        if isinstance(settings.config, str):
            return transformers.AutoConfig.from_pretrained(settings.config, trust_remote_code=False)
        keys = {
            key: value
            for key, value in settings.config.items()
            if not key.startswith(_OWN_PREFIX)
            and key not in ("model_type", "quantization_config", "auto_map")
        }
        return transformers.AutoConfig.for_model(settings.config["model_type"], **keys)
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise MeasurementError(
            f"transformers cannot read this config: {first_line(error)}"
        ) from None


def text_config(config: Any) -> Any:
    """The part of a config that describes the language model."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def vocabulary(model: Any) -> int:
    """Size of the vocabulary of a transformers model."""
    return int(text_config(model.config).vocab_size)


def cut_layers(config: Any, layers: int) -> None:
    """Keep the first `layers` layers of a config, with the lists that go layer by layer."""
    whole = int(config.num_hidden_layers)
    if not 1 <= layers <= whole:
        raise MeasurementError(f"cannot cut to {layers} of {whole} layers")
    for name, value in list(vars(config).items()):
        if isinstance(value, (list, tuple)) and len(value) == whole:
            setattr(config, name, value[:layers])
    config.num_hidden_layers = layers


def layer_count(settings: RunSettings) -> int:
    """Number of layers of the whole model."""
    return int(text_config(load_config(settings)).num_hidden_layers)


def pick_device(name: str) -> Any:
    """The torch device to run on; "auto" takes CUDA (or ROCm), then MPS, then the CPU.

    Raises:
        MeasurementError: the device is not present.
    """
    torch, _ = libraries()
    mps = getattr(torch.backends, "mps", None)
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": bool(mps and mps.is_available()),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(name for name, there in present.items() if there))
    if not present.get(name.partition(":")[0], False):
        there = ", ".join(name for name, yes in present.items() if yes)
        raise MeasurementError(f"there is no device {name[:40]!r} here; there is {there}")
    try:
        return torch.device(name)
    except RuntimeError:
        raise MeasurementError(f"device {name[:40]!r}: write cuda or cuda:1") from None


def device_facts(device: Any) -> DeviceInfo:
    """The description of a torch device for a measurement."""
    import torch

    if device.type == "cuda":  # needs a GPU
        properties = torch.cuda.get_device_properties(device)
        return DeviceInfo(
            index=device.index or 0,
            name=properties.name,
            units=properties.multi_processor_count,
            memory_bytes=float(properties.total_memory),
            compute_capability=f"{properties.major}.{properties.minor}",
        )
    if device.type == "cpu":
        from profilers.collect.machine import cpu

        processor = cpu()
        return DeviceInfo(
            name=processor.name, units=processor.cores, memory_bytes=float(processor.memory_bytes)
        )
    return DeviceInfo(name=device.type)


# ------------------------------------------------------------------------------- memory


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on the device or on the host."""
    text = str(error).casefold()
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "out of memory" in text
        or "can't allocate memory" in text
        or "defaultcpuallocator" in text
    )


def refuse_overcommit(needed_bytes: float) -> None:
    """Raise `MemoryError` where the host lacks the memory.

    Linux grants more memory than there is and kills the process later.
    """
    from profilers.collect.machine import available_bytes

    left = available_bytes()
    if left is not None and needed_bytes > left:
        raise MemoryError(
            f"out of memory: {needed_bytes / 1e9:.1f} GB needed, {left / 1e9:.1f} GB available"
        )


def free_memory(device: Any) -> None:
    """Release the memory of a failed run."""
    import gc

    gc.collect()
    if device.type == "cuda":  # needs a GPU
        import torch

        torch.cuda.empty_cache()


def first_line(error: BaseException) -> str:
    """The first line of an error's message, bounded in length."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
