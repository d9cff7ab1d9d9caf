"""Formulas of module classes, derived by running them: exact, or refused."""

import pytest

from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from model_registry.modules import derive_class, entry_names, read_entry
from model_registry.modules.entry import ModuleEntry
from tests.model_registry.shared_models import derived

pytestmark = pytest.mark.usefixtures("transformers")


def llama_entries() -> dict[str, ModuleEntry]:
    """Entries of a small llama by the unqualified name of their class."""
    return {entry.module.rpartition(".")[2]: entry for entry in derived("llama")}


def test_silu_is_derived_alone() -> None:
    entry = derive_class("torch.nn.modules.activation.SiLU")
    assert entry.formulas["flops"].text() == "4*{batch}*{new_tokens}*{features}"
    assert entry.formulas["read_bytes"].text() == "2*{batch}*{new_tokens}*{features}"
    assert entry.source.startswith("torch/nn/modules/activation.py:")
    assert not entry.validated


def test_linear_is_two_mkn_and_its_bias() -> None:
    entry = derive_class("torch.nn.modules.linear.Linear")
    sizes = {"batch": 2, "new_tokens": 7, "in_features": 11, "out_features": 13}
    assert entry.evaluate(**sizes) == {
        "flops": 2 * 14 * 11 * 13 + 14 * 13,
        "read_bytes": 2 * (14 * 11 + 11 * 13 + 13),
        "write_bytes": 2 * 14 * 13,
        "intermediate_bytes": 0,
        "held_bytes": 2 * (11 * 13 + 13),
    }
    with pytest.raises(InvalidValue, match="needs in_features"):
        entry.evaluate(batch=1, new_tokens=1, out_features=4)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("os.system", InvalidValue),
        ("torch.nn.modules.activation.Nothing", InvalidValue),
        ("torch.nn.functional.silu", InvalidValue),
        ("torch.nn.CTCLoss", UnsupportedModel),
        ("torch.nn.Linear(d)", InvalidValue),
        ("torch.nn.Linear(d, 4*d", InvalidValue),
        ("torch.nn.Linear(d, colour=d)", InvalidValue),
        ("torch.nn.Linear(d, d.bit_length())", InvalidValue),
        ("torch.nn.Linear(d, __import__('os'))", InvalidValue),
        ("torch.nn.Linear(d, 10**4*10**4)", InvalidValue),
        ("torch.nn.Linear(a, b*c*d*e)", InvalidValue),
        ("torch.nn.MultiheadAttention(8, 3)", UnsupportedModel),
        ("transformers.models.llama.modeling_llama.LlamaMLP(4)", InvalidValue),
        ("transformers.models.imaginary.modeling_imaginary.Layer", InvalidValue),
        ("transformers.Trainer", RidgelineError),
        ("", InvalidValue),
        ("torch.nn..SiLU", InvalidValue),
    ],
)
def test_a_class_that_cannot_be_derived_is_refused_in_one_sentence(
    path: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as refusal:
        derive_class(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["LlamaRotaryEmbedding", "LlamaAttention", "LlamaRMSNorm"])
def test_leaves_of_models_ship(name: str) -> None:
    assert read_entry(name).formulas["flops"].terms


def test_what_ships_is_what_is_derived() -> None:
    assert "torch.nn.modules.linear.Linear" in entry_names()
    for name in ("torch.nn.modules.linear.Linear", "torch.nn.modules.activation.SiLU"):
        assert read_entry(name).formulas == derive_class(name).formulas


# ------------------------------------------------------------------------------- composites


def test_a_layer_is_the_sum_of_its_children_and_what_it_does_itself() -> None:
    entries = llama_entries()
    layer = entries["LlamaDecoderLayer"]
    children = {child.name: child for child in layer.children}
    assert set(children) == {
        "self_attn", "mlp", "input_layernorm", "post_attention_layernorm"
    }  # fmt: skip
    at = {"batch": 3, "new_tokens": 5, "context": 40}
    inside = sum(
        entries[child.module.rpartition(".")[2]].evaluate(**at)["flops"]
        for child in children.values()
    )
    residuals = 2 * 3 * 5 * 64
    assert layer.evaluate(**at)["flops"] == inside + residuals


def test_attention_counts_causal_pairs_over_the_context() -> None:
    entries = llama_entries()
    formula = entries["LlamaAttention"].formulas["flops"].text()
    # 4 heads of 16: 2 products x 2 FLOPs x 64 per pair; n * c + n (n + 1) / 2 pairs.
    assert formula.startswith("256*{batch}*{new_tokens}*{context} + 128*{batch}*{new_tokens}**2")


@pytest.mark.slow
def test_a_recurrence_has_formulas_of_several_tokens_and_of_one() -> None:
    """Mamba's default mixer: projections of 768 to 2 x 1536, 1536 to 80, 48 to 1536, back to 768,
    the scan's product of 16 states, all for each token."""
    entry = derive_class("transformers.models.mamba.modeling_mamba.MambaMixer")
    products = 2 * (768 * 3072 + 1536 * 80 + 48 * 1536 + 1536 * 768 + 1536 * 16)
    one = entry.evaluate(batch=1, new_tokens=1, context=8)["flops"]
    more = [entry.evaluate(batch=1, new_tokens=n, context=8)["flops"] for n in (2, 3)]
    assert products < one < 1.1 * products
    assert products < more[1] - more[0] < 1.1 * products
    assert ModuleEntry.from_json(entry.to_json()) == entry
