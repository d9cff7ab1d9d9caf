"""Classes and their calls: arguments with arithmetic, every kind of torch class, its own
counter.
"""

import inspect
import math

import pytest

from genz_core.errors import RidgelineError
from model_registry.modules import calls, costs, derivation
from model_registry.modules.derivation import derive_class
from model_registry.tracing.capture import record_module

pytestmark = pytest.mark.usefixtures("transformers")
#: Classes whose products torch counts, each at small sizes.
COUNTED: dict[str, object] = {
    "Linear(12, 4*12)": {}, "Bilinear(3, 5, 7)": None, "Conv1d(4, 8, 3)": {},
    "Conv2d(4, 8, 3, groups=2)": {}, "ConvTranspose1d(4, 6, 3, stride=2)": {},
    "ConvTranspose2d(4, 6, 2)": {}, "MultiheadAttention(4*8, 4)": {}, "GRU(5, 6)": {},
    "LSTM(5, 6)": {}, "RNN(5, 6)": {}, "LSTMCell(5, 6)": {},
    "TransformerEncoderLayer(16, 4, 24)": {},
    "TransformerDecoderLayer(16, 4, 24)": {}, "Transformer(16, 4, 1, 1, 24)": {},
}  # fmt: skip


def test_arguments_take_symbols_and_arithmetic_between_them() -> None:
    entry = derive_class("torch.nn.Linear(d, 4*d, bias=False)")
    assert entry.symbols == ("batch", "new_tokens", "d")
    assert entry.formulas["flops"].text() == "8*{batch}*{new_tokens}*{d}**2"
    assert entry.formulas["held_bytes"].text() == "8*{d}**2"


def test_a_bilinear_form_is_a_product_for_each_output_and_another() -> None:
    """x1 W x2 for each output: in1 x in2 products, then in2, and the bias."""
    entry = derive_class("torch.nn.Bilinear")
    at = {"batch": 2, "new_tokens": 3, "in1_features": 5, "in2_features": 7, "out_features": 11}
    assert entry.evaluate(**at)["flops"] == 6 * 11 * (2 * 5 * 7 + 2 * 7) + 6 * 11
    assert entry.evaluate(**at)["held_bytes"] == 2 * (5 * 7 * 11 + 11)


def test_inputs_may_be_given() -> None:
    entry = derive_class("torch.nn.Linear(d, d, bias=False)", "batch, d")
    assert entry.formulas["flops"].text() == "2*{batch}*{d}**2"


def test_the_parts_of_one_weight_are_each_read() -> None:
    """Queries, keys, values and the output of attention: four matrices and their biases."""
    entry = derive_class("torch.nn.MultiheadAttention(4*d, 4)")
    at = {"batch": 1, "new_tokens": 1, "d": 8}
    weights = 2 * (4 * 32 * 32 + 4 * 32)
    assert entry.evaluate(**at)["held_bytes"] == weights
    assert entry.evaluate(**at)["read_bytes"] >= weights


@pytest.mark.parametrize("called", COUNTED)
def test_products_are_those_that_torch_counts(called: str) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    path, typed = calls.split(f"torch.nn.{called}")
    kind = getattr(torch.nn, path.rpartition(".")[2])
    call = calls.read(kind, path, typed)
    sizes = {"batch": 2, "new_tokens": 6, "height": 8, "width": 8, "features": 8}
    with derivation._written_out(), torch.device("meta"), torch.no_grad():
        module = call.make(kind, sizes).eval()
        given = [torch.zeros(shape) for shape in call.shapes(sizes)]
        records = record_module(module, *given)
        with FlopCounterMode(display=False) as counter:
            module(*given)
    biased = ("addmm", "baddbmm")
    ours = sum(
        costs.flops(record)
        - (record.outputs[0].elements if record.operator in biased else 0)
        - (record.outputs[0].elements if record.operator == "convolution" else 0)
        for record in records
        if record.operator in ("mm", "bmm", "addmm", "baddbmm", "convolution")
    )
    assert ours == counter.get_total_flops()
    if COUNTED[called] is None:  # torch has no count of a bilinear form
        assert counter.get_total_flops() == 0


@pytest.mark.slow
def test_every_class_of_torch_is_derived_or_refused_in_a_sentence(monkeypatch) -> None:
    """At two sizes of each symbol, so that all classes take seconds."""
    import torch

    monkeypatch.setattr(calls, "axes", lambda call, at: [(2, 4)] * 2 + [(4, 8)] * (len(at) - 2))
    found: dict[str, str] = {}
    for name, kind in inspect.getmembers(torch.nn, inspect.isclass):
        if issubclass(kind, torch.nn.Module):
            try:
                flops = derive_class(f"torch.nn.{name}").evaluate(
                    batch=2, new_tokens=2, **dict.fromkeys(_symbols(name), 4)
                )["flops"]
                assert math.isfinite(flops) and flops >= 0
            except RidgelineError as refusal:
                found[name] = str(refusal)
    assert all("\n" not in sentence and len(sentence) < 400 for sentence in found.values())
    # The others take modules, targets that are classes, or the sizes of an earlier output.
    unusual = ("Lazy", "Module", "Parameter", "Container", "DataParallel", "MaxUnpool",
               "Fractional")  # fmt: skip
    rest = {name for name in found if not name.startswith(unusual)}
    assert rest <= {
        "AdaptiveLogSoftmaxWithLoss", "CTCLoss", "CrossEntropyLoss", "CrossMapLRN2d", "Fold",
        "HingeEmbeddingLoss", "LinearCrossEntropyLoss", "MultiLabelMarginLoss", "NLLLoss",
        "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss2d", "RNNBase", "RNNCellBase",
        "SyncBatchNorm", "TransformerDecoder", "TransformerEncoder", "Unflatten",
        "CosineEmbeddingLoss", "MarginRankingLoss", "GaussianNLLLoss",
    }  # fmt: skip


def _symbols(name: str) -> list[str]:
    import torch

    kind = getattr(torch.nn, name)
    return [one for one in calls.read(kind, name, None).symbols if one not in calls.OUTER]
