"""Token mixers: attentions and recurrences, with sizes of the whole model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class Indexer:
    """The choice of tokens that a sparse attention attends to (DeepSeek-V3.2, section 2.1).

    heads, dim: of the index queries; one index key of `dim` is cached per token.
    top_k: tokens that each query keeps.  owner: False where the layer reuses the choice of an
    earlier one and has no indexer.
    """

    heads: int
    dim: int
    top_k: int
    owner: bool = True


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention with grouped keys and values.

    value_dim: 0 for head_dim.  window: tokens that a query attends to, itself included (0: all).
    chunk: attention stays inside aligned chunks of this many tokens (0: it does not).
    norm: of queries and keys: "head" over one head's width, "full" over all heads, "heads" with
    own weights for each head, "" for none; norm_bias: those norms have biases.
    output_gate: sigmoid gate on the heads' output, one per "element" or per "head", with additional
    columns in the query projection.  sinks: a learned logit per head.
    shares_kv: it reads the cache of an earlier layer and projects no keys and values.
    keys_are_values: one projection computes both.
    inputs: width of its projections' input, 0 for the model's.
    indexer: chooses the tokens that a query attends to (block-sparse attention), None for all.
    causal: False for attention in both directions; nothing is cached then, and a window is centred
    on its token.  distances: rows of a table of biases by distance, with one bias per head.
    inner_norm: a norm of all heads' output, before the output projection.  key_bias: whether keys
    have a bias where queries and values do.
    whole_cache: the cache keeps the tokens outside the window or chunk, too, as in some engines
    (see `genz_core.engine.Padding`).
    """

    module: ClassVar[str] = "attention"
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int = 0
    window: int = 0
    chunk: int = 0
    whole_cache: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    norm: Literal["", "head", "full", "heads"] = ""
    norm_bias: bool = False
    rope: bool = True
    sinks: bool = False
    output_gate: Literal["", "element", "head"] = ""
    shares_kv: bool = False
    keys_are_values: bool = False
    inputs: int = 0
    indexer: Indexer | None = None
    causal: bool = True
    distances: int = 0
    inner_norm: bool = False
    key_bias: bool = True

    @property
    def values(self) -> int:
        """Width of a head's values."""
        return self.value_dim or self.head_dim

    @property
    def gate_width(self) -> int:
        """Columns of the output gate in the query projection, all heads together."""
        return {"": 0, "element": self.heads * self.values, "head": self.heads}[self.output_gate]

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads; key-value heads are replicated where tp exceeds them."""
        return _attention_limits(self.heads, self.kv_heads)


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """Attention of a decoder over the output of an encoder.

    Keys and values are computed from the encoder's output once and cached for the following steps.
    inputs: width of the encoder's output, 0 for the model's.  qkv_bias, key_bias: of queries and
    values, and of keys.  norm: of queries and keys, over one head's width.  gates: learned scalars
    that multiply what a layer adds to the stream.
    """

    module: ClassVar[str] = "cross_attention"
    heads: int
    kv_heads: int
    head_dim: int
    inputs: int = 0
    qkv_bias: bool = False
    key_bias: bool = False
    output_bias: bool = False
    norm: bool = False
    gates: int = 0

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads; key-value heads are replicated where tp exceeds them."""
        return _attention_limits(self.heads, self.kv_heads)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).

    query_rank: of the queries' compression, 0 for one plain projection.  kv_rank: the cached
    latent.  nope_dim, rope_dim: parts of a query and key; rope_dim is cached beside the latent.
    """

    module: ClassVar[str] = "attention"
    heads: int
    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False
    output_gate: bool = False
    rotates: bool = True
    indexer: Indexer | None = None

    @property
    def query_dim(self) -> int:
        """Width of a head's query."""
        return self.nope_dim + self.rope_dim

    @property
    def cache_width(self) -> int:
        """Elements cached per token: the latent and the rotary key."""
        return self.kv_rank + self.rope_dim

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads; the latent and its cache are replicated on every device."""
        return (SplitLimit("tp", self.heads, "attention heads"),)


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Attention over a window and over compressed earlier tokens (DeepSeek-V4, section 2.3).

    It has one key-value head, whose keys are also the values.  ratio: tokens that one compressed
    entry represents, 0 for a window only.  overlap: entries are computed from two series, of this
    window and of the previous one.  indexer: chooses among the entries, None to use all.
    output_groups, output_rank: the heads' outputs are projected to this rank in groups.
    """

    module: ClassVar[str] = "attention"
    heads: int
    head_dim: int
    query_rank: int
    rope_dim: int
    window: int
    ratio: int
    output_groups: int
    output_rank: int
    indexer: Indexer | None = None

    @property
    def series(self) -> int:
        """Compressed series that a token contributes to."""
        return 0 if not self.ratio else 2 if self.indexer else 1

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads and output groups; groups are replicated where tp exceeds them."""
        return (
            SplitLimit("tp", self.heads, "attention heads"),
            SplitLimit("tp", self.output_groups, "output groups", copied=True),
        )


@dataclass(frozen=True, slots=True)
class SharedTransformer:
    """An attention and a feed-forward whose weights several layers share (Zamba2).

    It reads the stream joined with the embeddings, 2 x hidden wide, brings its norms and sums, and
    ends in a projection that each layer has for itself.  adapter_rank: of each layer's additions to
    the shared feed-forward, and with attention_adapters also to queries, keys and values.
    owner: this layer is the first to use the weights, so it holds them.
    """

    module: ClassVar[str] = ""
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    adapter_rank: int
    attention_adapters: bool
    rope: bool
    owner: bool

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads and its feed-forward's columns."""
        columns = SplitLimit("tp", self.intermediate, "feed-forward columns")
        return (*_attention_limits(self.heads, self.kv_heads), columns)


@dataclass(frozen=True, slots=True)
class Mamba:
    """Selective state space, first form (arXiv:2312.00752), with a state per channel.

    rank: of the time step's projection.
    norms: of time step, B and C: RMS (Jamba), without weights (Falcon-Mamba), or "" for none.
    """

    module: ClassVar[str] = "ssm"
    inner: int
    state: int
    rank: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    norms: Literal["", "rms", "without_weights"] = ""

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its channels."""
        return (SplitLimit("tp", self.inner, "state-space channels"),)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """State-space duality (arXiv:2405.21060): heads of `head_dim` channels, B and C in groups.

    gated_norm: an RMS norm of all channels after the scan.
    """

    module: ClassVar[str] = "ssm"
    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    gated_norm: bool = True

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads; groups are replicated where tp exceeds them."""
        return (
            SplitLimit("tp", self.heads, "state-space heads"),
            SplitLimit("tp", self.groups, "state-space groups", copied=True),
        )


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Linear attention by the delta rule, with a matrix state per head.

    gate_rank: 0 for a scalar decay per head (Gated DeltaNet, arXiv:2412.06464); otherwise a decay
    for every key channel, from a projection of that rank (Kimi delta attention,
    arXiv:2510.26692).  output_rank: of the output gate's projection, 0 for a full one.
    """

    module: ClassVar[str] = "linear_attention"
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    gate_rank: int = 0
    output_rank: int = 0

    @property
    def keys(self) -> int:
        """Columns of the keys of all heads."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Columns of the values of all heads."""
        return self.value_heads * self.value_dim

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its value heads and its key heads."""
        return (
            SplitLimit("tp", self.value_heads, "linear-attention value heads"),
            SplitLimit("tp", self.key_heads, "linear-attention key heads"),
        )


def _attention_limits(heads: int, kv_heads: int) -> tuple[SplitLimit, ...]:
    """Query heads are divided; key-value heads are replicated where tp exceeds them."""
    return (
        SplitLimit("tp", heads, "attention heads"),
        SplitLimit("tp", kv_heads, "KV heads", copied=True),
    )
