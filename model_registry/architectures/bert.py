"""BERT and related models: encoders with learned positions, norms after each block, biases
everywhere.
"""

from __future__ import annotations

from dataclasses import replace

from model_registry.architectures.registry import architecture
from model_registry.graph.encoder_heads import encoder, head, labels, task_of
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, feed_forward, layer_count
from model_registry.spec import HeadProjection, Layer, ModelSpec

_IGNORED = (
    *("position_embedding_type", "pooler_type", "pooler_fc_size", "pooler_num_attention_heads"),
    *("pooler_num_fc_layers", "pooler_size_per_head", "directionality", "output_past"),
    *("sinusoidal_pos_embds", "summary_use_proj", "summary_type", "summary_activation"),
    *("task_type_vocab_size", "use_task_id", "adapters", "generator_hidden_size"),
)


def _stack(config: Config, *, norm_first: bool = False, distances: int = 0) -> list[Layer]:
    """The layers: attention and feed-forward, both with biases, without rotary positions."""
    count = layer_count(config)
    mixer = attention(
        config, qkv_bias=True, output_bias=True, rope=False, causal=False, distances=distances
    )
    dense = feed_forward(config, gated=False, bias=True)
    first = Layer((mixer, dense), norms="before" if norm_first else "after")
    rest = replace(first, blocks=(replace(mixer, distances=0), dense))
    return [first] + [rest] * (count - 1)


@architecture("bert", "ernie", "camembert", "roberta", "xlm-roberta", "data2vec-text")
def bert(config: Config) -> ModelSpec:
    """BERT (arXiv:1810.04805) and RoBERTa (arXiv:1907.11692), whose classifier has no pooler."""
    config.ignore(*_IGNORED)
    like_roberta = config.model_type not in ("bert", "ernie")
    tasks = 0
    if config.model_type == "ernie" and config.flag("use_task_id"):
        tasks = config.integer("task_type_vocab_size", 3)
    return encoder(
        config,
        _stack(config),
        _heads(config, like_roberta),
        norm="layer",
        positions=config.integer("max_position_embeddings", 512),
        token_types=config.integer("type_vocab_size", 2) + tasks,
        embedding_norm=True,
        final_norm=False,
    )


def _heads(config: Config, like_roberta: bool) -> tuple[HeadProjection, ...]:
    """The heads of the class that the config names; the plain model ends with its pooler."""
    hidden, task = config.integer("hidden_size"), task_of(config)
    pooler = head("pooler", hidden, hidden)
    if task == "SequenceClassification" and like_roberta:
        return (head("classifier_dense", hidden, hidden), labels(config, hidden))
    return {
        "MaskedLM": masked_language_heads(config),
        "PreTraining": (pooler, *masked_language_heads(config), labels(config, hidden, 2)),
        "SequenceClassification": (pooler, labels(config, hidden)),
        "MultipleChoice": (pooler, labels(config, hidden, 1)),
        "NextSentencePrediction": (pooler, labels(config, hidden, 2)),
        "TokenClassification": (labels(config, hidden, each="token"),),
        "QuestionAnswering": (labels(config, hidden, 2, each="token"),),
        "CausalLM": masked_language_heads(config),
    }.get(task, (pooler,))


def masked_language_heads(config: Config, width: int = 0) -> tuple[HeadProjection, ...]:
    """A dense layer with a norm on every token, then the token table with a bias.

    width: of the table, 0 for the model's.
    """
    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    width = width or hidden
    return (
        HeadProjection("transform", width, hidden, "token", norm=True),
        HeadProjection("masked_head", rows, width, "token", activation=False, tied=True),
    )


@architecture("distilbert")
def distilbert(config: Config) -> ModelSpec:
    """Half of BERT's layers, no segments, no pooler (arXiv:1910.01108)."""
    config = config.renamed({"dim": "hidden_size", "hidden_dim": "intermediate_size"})
    config.ignore(*_IGNORED, "seq_classif_dropout", "qa_dropout")
    hidden, task = config.integer("hidden_size"), task_of(config)
    heads = {
        "MaskedLM": masked_language_heads(config),
        "SequenceClassification": (
            head("pre_classifier", hidden, hidden),
            labels(config, hidden),
        ),
        "TokenClassification": (labels(config, hidden, each="token"),),
        "QuestionAnswering": (labels(config, hidden, 2, each="token"),),
    }
    positions = config.integer("max_position_embeddings", 512)
    return encoder(
        config,
        _stack(config),
        heads.get(task, ()),
        norm="layer",
        positions=positions,
        embedding_norm=True,
        final_norm=False,
    )


@architecture("mpnet")
def mpnet(config: Config) -> ModelSpec:
    """BERT's layers without segments; biases by distance of 32 buckets (arXiv:2004.09297)."""
    config.ignore(*_IGNORED)
    buckets = config.integer("relative_attention_num_buckets", 32)
    return encoder(
        config,
        _stack(config, distances=buckets),
        _heads(config, like_roberta=True),
        norm="layer",
        positions=config.integer("max_position_embeddings", 512),
        embedding_norm=True,
        final_norm=False,
    )


@architecture("xlm-roberta-xl", "roberta-prelayernorm", "megatron-bert")
def norm_first(config: Config) -> ModelSpec:
    """RoBERTa and BERT with norms in front of each block and behind the last layer."""
    config.ignore(*_IGNORED)
    kind = config.model_type
    return encoder(
        config,
        _stack(config, norm_first=True),
        _heads(config, like_roberta=kind != "megatron-bert"),
        norm="layer",
        positions=config.integer("max_position_embeddings", 512),
        token_types=config.integer("type_vocab_size", 1 if kind == "xlm-roberta-xl" else 2),
        embedding_norm=kind == "roberta-prelayernorm",
    )
