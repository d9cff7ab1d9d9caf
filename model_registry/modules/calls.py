"""A class with its constructor arguments, `torch.nn.Linear(d, 4*d, bias=False)`, its symbols and
inputs.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genz_core.errors import InvalidValue

_LONGEST = 400  # longest call in characters
_LARGEST = 10**6
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
#: Sizes of every input.
OUTER = ("batch", "new_tokens")
#: Inputs of classes that do not take rows of features, in terms of `batch`, `new_tokens`, arguments
#: of the constructor, `height`, `width`, and numbers. Several inputs are separated by semicolons.
_ROWS, _PICTURE = "batch, new_tokens, {}", "batch, {}, height, width"
_INPUTS: Mapping[str, str] = {
    "Linear": _ROWS.format("in_features"),
    "Bilinear": f"{_ROWS.format('in1_features')}; {_ROWS.format('in2_features')}",
    "Embedding": "batch, new_tokens",
    "EmbeddingBag": "batch, new_tokens",
    "LayerNorm": _ROWS.format("normalized_shape"),
    "RMSNorm": _ROWS.format("normalized_shape"),
    "Conv1d": "batch, in_channels, new_tokens",
    "ConvTranspose1d": "batch, in_channels, new_tokens",
    "Conv2d": _PICTURE.format("in_channels"),
    "ConvTranspose2d": _PICTURE.format("in_channels"),
    "Conv3d": "batch, in_channels, 8, height, width",
    "ConvTranspose3d": "batch, in_channels, 8, height, width",
    "BatchNorm1d": "batch, num_features, new_tokens",
    "InstanceNorm1d": "batch, num_features, new_tokens",
    "BatchNorm2d": _PICTURE.format("num_features"),
    "InstanceNorm2d": _PICTURE.format("num_features"),
    "BatchNorm3d": "batch, num_features, 8, height, width",
    "InstanceNorm3d": "batch, num_features, 8, height, width",
    "GroupNorm": "batch, num_channels, new_tokens",
    "MultiheadAttention": "; ".join(["new_tokens, batch, embed_dim"] * 3),
    "TransformerEncoderLayer": "new_tokens, batch, d_model",
    "TransformerDecoderLayer": "; ".join(["new_tokens, batch, d_model"] * 2),
    "RNN": "new_tokens, batch, input_size",
    "GRU": "new_tokens, batch, input_size",
    "LSTM": "new_tokens, batch, input_size",
    "RNNCell": "batch, input_size",
    "GRUCell": "batch, input_size",
    "LSTMCell": "batch, input_size",
    "CosineSimilarity": "; ".join([_ROWS.format("features")] * 2),
    "PairwiseDistance": "; ".join([_ROWS.format("features")] * 2),
    **dict.fromkeys(
        ("MaxPool2d", "AvgPool2d", "LPPool2d", "AdaptiveAvgPool2d",
         "AdaptiveMaxPool2d", "PixelUnshuffle", "Upsample", "UpsamplingNearest2d",
         "UpsamplingBilinear2d", "ZeroPad2d", "ReflectionPad2d", "ReplicationPad2d",
         "ConstantPad2d", "CircularPad2d", "Softmax2d", "Dropout2d", "ChannelShuffle",
         "LocalResponseNorm", "Unfold"),
        _PICTURE.format("features"),
    ),
    **dict.fromkeys(
        ("MaxPool3d", "AvgPool3d", "LPPool3d", "AdaptiveAvgPool3d", "AdaptiveMaxPool3d",
         "ReflectionPad3d", "ReplicationPad3d", "CircularPad3d", "ZeroPad3d", "ConstantPad3d"),
        "batch, features, 8, height, width",
    ),
    "Transformer": "; ".join(["new_tokens, batch, d_model"] * 2),
    **dict.fromkeys(
        ("MarginRankingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
         "CosineEmbeddingLoss", "GaussianNLLLoss"),
        "; ".join(["new_tokens, features"] * 3),
    ),
    "PixelShuffle": "batch, upscale_factor**2*features, height, width",
    "GLU": "batch, new_tokens, 2*features",
    **dict.fromkeys(
        ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "BCELoss",
         "BCEWithLogitsLoss", "SoftMarginLoss", "PoissonNLLLoss"),
        "; ".join([_ROWS.format("features")] * 2),
    ),
}  # fmt: skip
#: Inputs that hold token ids.
WHOLE = ("Embedding", "EmbeddingBag")
#: Default arguments of classes whose required arguments are not independent sizes.
_USUAL: Mapping[str, str] = {
    "Softmax": "dim=-1", "LogSoftmax": "dim=-1", "Softmin": "dim=-1", "LayerNorm": "features",
    "RMSNorm": "features", "Conv1d": "channels, out_channels, 1",
    "Conv2d": "channels, out_channels, 3", "Conv3d": "channels, out_channels, 3",
    "ConvTranspose1d": "channels, out_channels, 2", "ConvTranspose2d": "channels, out_channels, 2",
    "ConvTranspose3d": "channels, out_channels, 2", "GroupNorm": "4, 4*channels",
    "MultiheadAttention": "num_heads*head_dim, num_heads",
    "TransformerEncoderLayer": "4*head_dim, 4, dim_feedforward",
    "TransformerDecoderLayer": "4*head_dim, 4, dim_feedforward",
    "RNN": "input_size, hidden_size", "GRU": "input_size, hidden_size",
    "LSTM": "input_size, hidden_size",
    **dict.fromkeys(("ReflectionPad3d", "ReplicationPad3d", "CircularPad3d", "ZeroPad3d",
                     "AdaptiveAvgPool3d", "AdaptiveMaxPool3d"), "1"),
    "LPPool3d": "2, 2", "ConstantPad3d": "1, 0", "Transformer": "4*head_dim, 4, 1, 1, 4*inner",
    "MaxPool1d": "2", "MaxPool2d": "2", "MaxPool3d": "2", "AvgPool1d": "2", "AvgPool2d": "2",
    "AvgPool3d": "2", "LPPool1d": "2, 2", "LPPool2d": "2, 2", "PixelShuffle": "2",
    "PixelUnshuffle": "2", "Threshold": "0, 0", "Upsample": "scale_factor=2",
    "UpsamplingNearest2d": "scale_factor=2", "UpsamplingBilinear2d": "scale_factor=2",
    "ZeroPad2d": "1", "ReflectionPad2d": "1", "ReplicationPad2d": "1", "CircularPad2d": "1",
    "ConstantPad2d": "1, 0", "ZeroPad1d": "1", "ReflectionPad1d": "1", "ReplicationPad1d": "1",
    "CircularPad1d": "1", "ConstantPad1d": "1, 0", "AdaptiveAvgPool2d": "2",
    "AdaptiveMaxPool2d": "2", "AdaptiveAvgPool1d": "2", "AdaptiveMaxPool1d": "2",
    "LocalResponseNorm": "2", "ChannelShuffle": "2", "Unfold": "2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """A class with the arguments of its constructor, in symbols.

    path: of the class.  arguments, keywords: expressions.  symbols: those of the arguments, in
    order, and those that the inputs need.  inputs: expressions of the sizes of each input.
    """

    path: str
    arguments: tuple[ast.expr, ...]
    keywords: Mapping[str, ast.expr]
    symbols: tuple[str, ...]
    inputs: tuple[tuple[ast.expr, ...], ...]
    bound: Mapping[str, ast.expr]

    def make(self, kind: Any, sizes: Mapping[str, int]) -> Any:
        """The module at sizes of the symbols."""
        given = [value(one, sizes) for one in self.arguments]
        return kind(*given, **{name: value(one, sizes) for name, one in self.keywords.items()})

    def shapes(self, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        """The shapes of the inputs at sizes of the symbols."""
        known = {**sizes, **{name: value(one, sizes) for name, one in self.bound.items()}}
        return [tuple(value(side, known) for side in shape) for shape in self.inputs]


def split(text: str) -> tuple[str, str | None]:
    """(path, text in parentheses or None) of a typed class.

    Raises:
        InvalidValue: not a class with arguments in parentheses.
    """
    path, bracket, rest = text.strip().partition("(")
    if not bracket:
        return path, None
    if not rest.endswith(")") or len(text) > _LONGEST:
        raise InvalidValue(f"{text[:60]!r}: give a class and arguments, as torch.nn.Linear(d, 4*d)")
    return path.strip(), rest[:-1]


def read(kind: Any, path: str, typed: str | None, inputs: str = "") -> Call:
    """A class with its typed arguments.

    kind: the class.  typed: None for symbols named after the constructor's own arguments.
    inputs: shapes instead of the usual ones, as "batch, new_tokens, 4*d"; several separated by
    semicolons.

    Raises:
        InvalidValue: arguments that the constructor lacks, or that are not numbers, symbols and + -
            * // %.
    """
    name = kind.__name__
    if typed is None:
        typed = _USUAL.get(name, ", ".join(_needed(kind)))
    call = _parsed(f"f({typed})", typed)
    assert isinstance(call, ast.Call)
    keywords = {one.arg: one.value for one in call.keywords if one.arg}
    for each in (*call.args, *keywords.values()):
        _check(each, typed)
    try:
        bound = inspect.signature(kind).bind(*call.args, **keywords).arguments
    except (TypeError, ValueError) as error:
        takes = ", ".join(inspect.signature(kind).parameters)
        raise InvalidValue(f"{name}({typed[:60]}): {error}; {name}({takes})") from None
    plain = {n: each for n, each in bound.items() if isinstance(each, ast.expr)}
    if isinstance(bound.get("args"), tuple):  # recurrent layers pass their arguments on
        plain |= dict(zip(("input_size", "hidden_size"), bound["args"], strict=False))
    first = inputs or _INPUTS.get(name, _ROWS.format("features"))
    shapes = tuple(_shape(one) for one in first.split(";"))
    used = [*_names(call.args), *_names(keywords.values())]
    sides = _names([side for shape in shapes for side in shape])
    symbols = dict.fromkeys((*OUTER, *used, *(one for one in sides if one not in plain)))
    own = {n: each for n, each in plain.items() if n in sides}
    return Call(path, tuple(call.args), keywords, tuple(symbols), shapes, own)


def _needed(kind: Any) -> list[str]:
    """Arguments of a constructor without a default."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return []
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return [p.name for p in parameters if p.default is p.empty and p.kind in plain]


def _parsed(text: str, said: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidValue(f"{said[:60]!r}: give numbers and symbols, as d, 4*d") from None


def _shape(text: str) -> tuple[ast.expr, ...]:
    found = _parsed(f"({text},)", text)
    sides = tuple(found.elts) if isinstance(found, ast.Tuple) else ()
    for side in sides:
        _check(side, text)
    return sides


def _check(node: ast.AST, said: str) -> None:
    """Refuse anything but values, symbols, lists of them, and arithmetic on them."""
    ok = isinstance(node, (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.operator, ast.Load))
    ok |= isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS
    ok |= isinstance(node, (ast.UnaryOp, ast.USub))
    if not ok:
        raise InvalidValue(
            f"{said[:60]!r}: {ast.unparse(node)[:40] if isinstance(node, ast.expr) else node!r} is "
            "no number, symbol, text, list or arithmetic by + - * // % **"
        )
    for child in ast.iter_child_nodes(node):
        _check(child, said)


def _names(nodes: Any) -> list[str]:
    return [each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]


def value(node: ast.expr, sizes: Mapping[str, int]) -> Any:
    """The value of an expression at sizes of its symbols.

    Raises:
        InvalidValue: a symbol without a size, or a number beyond what a module has.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise InvalidValue(f"{node.id!r} is not a symbol of the call: {', '.join(sizes)}")
        return sizes[node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(value(each, sizes) for each in node.elts)
    if isinstance(node, ast.UnaryOp):
        return -value(node.operand, sizes)
    assert isinstance(node, ast.BinOp)
    left, right = value(node.left, sizes), value(node.right, sizes)
    if isinstance(node.op, ast.Pow) and not 0 <= right <= 4:
        raise InvalidValue(f"{ast.unparse(node)[:40]!r}: powers of 0 to 4")
    try:
        found = _OPERATORS[type(node.op)](left, right)
    except (TypeError, ZeroDivisionError) as error:
        raise InvalidValue(f"{ast.unparse(node)[:40]!r}: {error}") from None
    if not isinstance(found, str) and abs(found) > _LARGEST:
        raise InvalidValue(f"{ast.unparse(node)[:40]!r} is {found:,}: at most {_LARGEST:,}")
    return found


def axes(call: Call, at: Sequence[str]) -> list[tuple[int, ...]]:
    """Sizes at which each symbol is counted, one more than its formula needs as a check.

    Raises:
        InvalidValue: too many symbols.
    """
    more = [name for name in at if name not in OUTER]
    if len(more) > 4:
        raise InvalidValue(f"{len(more)} symbols ({', '.join(more)}): at most 4; give numbers")
    sides = (4, 8, 12, 16, 20) if len(more) < 3 else (4, 8, 12, 16)
    few = (4, 8, 12) if len(more) > 3 else sides
    tokens = (8, 10, 12, 14) if "Pad1d" in call.path or "Pool1d" in call.path else (2, 4, 6, 8)
    kinds = {"batch": (2, 4, 6), "new_tokens": tokens}
    return [kinds.get(name, few) for name in at]
