"""FLOPs and bytes of basic operators and modules compared with another tool's figures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_registry.modules import derive_class, read_entry
from model_registry.modules.costs import figures
from model_registry.tracing.capture import record_module
from model_registry.tracing.records import DispatchedOp, DispatchedTensor
from tests.rules import for_every

GOLDEN = Path(__file__).parents[2] / "golden" / "lmp_leaf_kernels.json"
KERNELS = {entry["kernel"]: entry for entry in json.loads(GOLDEN.read_text())["kernels"]}

#: Figures of the other tool that differ from ours, with the reason.
DEVIATIONS = {
    "F.silu": ("flops", 4.0, "exp, add, divide and multiply: four FLOPs an element, not one"),
    "F.gelu": ("flops", 8.0, "erf counts as the polynomial it is: eight FLOPs an element"),
    "F.softmax": ("flops", 5 / 3, "maximum, subtract, exp, sum, divide: five passes, not three"),
    "F.layer_norm": ("flops", 7 / 5, "mean and variance are two reductions each"),
    "torch.addmm": ("read_bytes", None, "a bias is one row, not a matrix"),
    "torch.baddbmm": ("read_bytes", None, "a broadcast addend is read once"),
    "F.embedding": ("read_bytes", None, "token numbers are counted as two bytes, not four"),
}


@pytest.fixture(autouse=True, scope="module")
def libraries() -> None:
    """Skips if they are missing; loaded when a test runs, not when it is collected."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")


def counted(function: Callable[..., Any], *shapes: tuple[int, ...]) -> dict[str, float]:
    """Figures of one tensor operator on the meta device, in 16 bits."""
    import torch

    class Alone(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)

    inputs = [torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes]
    return figures(record_module(Alone(), *inputs))


def ours(name: str, s: dict[str, Any]) -> dict[str, float]:
    """Our figures of the kernel that the other tool calls `name`."""
    import torch

    functional = torch.nn.functional
    m, k, n, b = (s.get(key, 1) for key in ("M", "K", "N", "B"))
    row = (s.get("num_elements", 4096) // 4096, 4096)
    products = {
        "torch.mm": (torch.mm, (m, k), (k, n)),
        "torch.matmul": (torch.matmul, (m, k), (k, n)),
        "torch.bmm": (torch.bmm, (b, m, k), (b, k, n)),
        "torch.addmm": (torch.addmm, (n,), (m, k), (k, n)),
        "torch.baddbmm": (torch.baddbmm, (b, 1, n), (b, m, k), (b, k, n)),
        "F.linear": (functional.linear, (m, k), (n, k)),
        "torch.add": (torch.add, row, row),
        "torch.mul": (torch.mul, row, row),
        "torch.div": (torch.div, row, row),
        "F.softmax": (lambda x: functional.softmax(x, -1), row),
        "F.layer_norm": (
            lambda x, w, v: functional.layer_norm(x, (4096,), w, v), row, (4096,), (4096,)
        ),
    }  # fmt: skip
    if name in products:
        function, *shapes = products[name]
        return counted(function, *shapes)
    if name == "F.embedding":
        return derive_class("torch.nn.modules.sparse.Embedding").evaluate(
            batch=1, new_tokens=s["num_lookups"], embedding_dim=s["embed_dim"], num_embeddings=9
        )
    if name == "F.scaled_dot_product_attention":
        return attention(s)
    return counted(getattr(functional, name.removeprefix("F.")), row)


def attention(s: dict[str, int]) -> dict[str, float]:
    query = DispatchedTensor((s["B"], s["H"], s["S_q"], s["D"]), 1)
    key, value = (DispatchedTensor((s["B"], s["H"], s["S_kv"], s["D"]), at) for at in (2, 3))
    out = DispatchedTensor(query.shape, 4)
    facts = {"causal": 0.0, "window": 0.0}
    return figures([DispatchedOp("", "attention", (query, key, value), (out,), facts)])


@for_every(KERNELS)
def test_leaf_figures_equal_the_other_tools_where_it_is_right(name: str) -> None:
    kernel = KERNELS[name]
    found = ours(name, kernel["sizes"])
    figure, factor, reason = DEVIATIONS.get(name, ("", None, ""))
    for key in ("flops", "read_bytes", "write_bytes"):
        if key != figure:
            extra = 2 * 2 * 2048 if (name, key) == ("F.layer_norm", "write_bytes") else 0
            assert found[key] == pytest.approx(kernel[key], rel=5e-4, abs=extra), key
    if factor is not None:
        assert found[figure] == pytest.approx(kernel[figure] * factor), reason
    elif figure:
        assert found[figure] < kernel[figure], reason


CALLS = json.loads((GOLDEN.parent / "lmp_llama2_modules.json").read_text())["calls"]
#: Figures of its module database that differ from ours: ours over theirs, and the reason.
MODULE_DEVIATIONS: dict[tuple[str, str], tuple[Callable[[dict[str, Any]], float], str]] = {
    ("SiLU", "flops"): (lambda call: 4 / 5, "exp, add, divide and multiply: no negation apart"),
    ("Embedding", "read_bytes"): (
        lambda call: (2 * 4096 + 2) / (2 * 4096 + 4),
        "token numbers are counted as two bytes, not four",
    ),
    ("LlamaRotaryEmbedding", "flops"): (
        lambda call: 1 / call["batch"],
        "sequences share the positions: angles are made once",
    ),
    ("LlamaRotaryEmbedding", "write_bytes"): (lambda call: 1 / call["batch"], "the same"),
    ("LlamaRotaryEmbedding", "read_bytes"): (
        lambda call: (64 + call["new_tokens"]) / (64 + call["batch"] * call["new_tokens"]),
        "the same",
    ),
}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call["module"].rpartition(".")[2])
def test_leaf_modules_of_llama_2_equal_the_other_tools_where_it_is_right(
    call: dict[str, Any],
) -> None:
    name = call["module"].rpartition(".")[2]
    found = read_entry(call["module"]).evaluate(**{"context": 0, "num_embeddings": 32000, **call})
    for figure in ("flops", "read_bytes", "write_bytes"):
        factor, reason = MODULE_DEVIATIONS.get((name, figure), (lambda call: 1.0, ""))
        assert found[figure] == pytest.approx(call[figure] * factor(call)), (figure, reason)
