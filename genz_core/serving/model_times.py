"""Device time of a model's steps by their content: priced at nodes in one array call, linear
between.

An engine's step of D decodes and n prompt tokens costs its matrix products by tokens, its experts
by the tokens of all ranks, its head by the sampled sequences, and its attention by group.  Each of
these shares (`step_shares`) is priced once, at a few nodes of every configuration (`step_sizes`).
At the nodes (one decode, the most that run, a prompt by itself) a step equals the price of
`genz_core.mixed`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from genz_core.deployment import Deployment
from genz_core.models.speculative import QueryTokens
from genz_core.schedule import NODES, WEIGHTS
from genz_core.serving.deduplicate import picked_columns
from genz_core.serving.node_lines import Line, nodes_of
from genz_core.serving.step_shares import Share, StepShares
from genz_core.serving.step_sizes import Sizes, sizes_priced
from genz_core.types import Array, Group, Parallelism, Places

_OF_TOKENS: tuple[Share, ...] = ("tokens", "experts", "rows")
#: Numbers of prompts whose attention is priced in one kernel: a single one, and two at which every
#: further one adds as much.
PROMPTS_OF_A_KERNEL = (1.0, 256.0, 512.0)


@dataclass(frozen=True)
class ModelTimes:
    """Device times of a model's steps, of configurations with the same number of pipeline stages.

    nodes: tokens of a rank, [nodes, configs]; products_s, experts_s, rows_s: seconds there,
    [stages, nodes, configs].  decode_nodes: sequences that decode; decodes_s: their attention.
    prompt_s: attention of a piece of a prompt by itself, [stages, configs]; rest_s: of the last
    piece of a prompt.  prompts_s: that each piece adds to a kernel of many, and prompts_least_s:
    what they pay once.
    ranks: number that wait for one another, [configs].  launched: operators that the host launches
    for each stage, [stages, configs].  uneven_s: time of the experts for each prompt token that a
    rank has beyond the mean of all, [stages, configs]: shared experts run for its own tokens.
    query: new tokens of a sequence that decodes.
    """

    nodes: Array
    products_s: Array
    experts_s: Array
    rows_s: Array
    decode_nodes: Array
    decodes_s: Array
    prompt_s: Array
    rest_s: Array
    prompts_s: Array
    prompts_least_s: Array
    sizes: Sizes
    ranks: Array
    launched: Array
    uneven_s: Array
    query: QueryTokens

    @classmethod
    def of(
        cls,
        deployed: Deployment,
        parallelism: Parallelism,
        sizes: Sizes,
        query: QueryTokens,
        without: str = "",
    ) -> ModelTimes:
        """Price the nodes; every degree of `parallelism` an array [configs], `pp` the same in all.

        without: module whose operators are left out.

        Raises:
            MissingSpec: the system states no peak or link that an operator needs.
        """
        one = np.ones_like(sizes.isl)
        steps = StepShares.of(deployed, parallelism, without)
        ranks = one * parallelism.dp if "experts" in steps.shares else one
        some, nodes = sizes_priced(sizes, query.tokens, ranks)
        prompt = sizes.cached + sizes.isl
        contexts = prompt + NODES[:, None] * np.maximum(sizes.osl - 2.0, 0.0)
        of_tokens = steps.seconds(Group(nodes, one, one), *_OF_TOKENS)
        decoding = query.group(some[:, None], contexts, prompt)
        attention = steps.seconds(decoding, "groups")["groups"]
        numbers, pieces = [*PROMPTS_OF_A_KERNEL], [sizes.piece] * len(PROMPTS_OF_A_KERNEL)
        if sizes.several:
            numbers, pieces = [*numbers, 1.0], [*pieces, sizes.rest]
        new = np.stack(pieces)
        reading = Group(
            np.array(numbers)[:, None] * one, new, sizes.cached + (sizes.isl - new) / 2.0,
            prompt=prompt,
        )  # fmt: skip
        alone, many, more, *last = np.moveaxis(steps.seconds(reading, "groups")["groups"], 1, 0)
        number, further = PROMPTS_OF_A_KERNEL[1:]
        each = (more - many) / (further - number)
        launched = steps.launched[:, None] * one
        uneven = np.zeros_like(launched)
        if np.any(ranks > 1.0):
            uneven = steps.uneven_s(sizes.piece, ranks)
        return cls(
            nodes=nodes,
            products_s=of_tokens["tokens"],
            experts_s=of_tokens["experts"],
            rows_s=of_tokens["rows"],
            decode_nodes=some,
            decodes_s=np.einsum("snkc,k->snc", attention, WEIGHTS),
            prompt_s=alone,
            rest_s=last[0] if last else alone,
            prompts_s=each,
            prompts_least_s=np.minimum(np.maximum(many - number * each, 0.0), alone - each),
            sizes=sizes,
            ranks=ranks,
            launched=launched,
            uneven_s=uneven,
            query=query,
        )

    @cached_property
    def _lines(self) -> _Lines:
        return _Lines(self)

    @cached_property
    def _part_of_a_piece(self) -> tuple[Array, Array, Array]:
        """Size of the last piece of a prompt, in pieces, [configs]; attention of a piece up to that
        size and beyond it [s per piece], [stages, configs].
        """
        rest = self.sizes.rest / self.sizes.piece
        left = np.where(rest < 1.0, 1.0 - rest, np.inf)
        return rest, self.rest_s / rest, (self.prompt_s - self.rest_s) / left

    @cached_property
    def _one_rank(self) -> bool:
        """Whether no rank of any configuration waits for another."""
        return bool((self.ranks == 1.0).all())

    @cached_property
    def _spread(self) -> bool:
        """Whether any configuration has fewer requests than ranks."""
        return bool((np.asarray(self.sizes.share) < 1.0).any())

    def with_share(self, share: Array) -> ModelTimes:
        """The times if this share of the ranks has requests, [configs]; see `Sizes`."""
        return replace(self, sizes=replace(self.sizes, share=share))

    def picked(self, chosen: Places) -> ModelTimes:
        """A selection of the configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, sizes=self.sizes.picked(chosen), **columns)

    def of_decodes(self, decodes: Array) -> Array:
        """Time of every stage of a step that only decodes [s], [stages, ..., configs]."""
        lines, verified = self._lines, decodes * self.query.tokens
        tokens = lines.tokens.place(verified)
        attention = lines.attention(lines.decodes.place(decodes))
        if not self._spread and self.query.tokens == self.query.sampled:
            return lines.all_shares(tokens) + attention
        routed = lines.tokens.place(verified * self.sizes.share) if self._spread else tokens
        sampled = lines.tokens.place(decodes * self.query.sampled)
        return lines.products(tokens) + lines.experts(routed) + lines.rows(sampled) + attention

    def __call__(self, decodes: Array, tokens: Array, elsewhere: Array) -> Array:
        """Time of every stage on the busiest rank [s], [stages, ..., configs].

        decodes: sequences that decode there.  tokens: prompt tokens there; elsewhere: on each other
        rank.
        """
        lines, verified = self._lines, decodes * self.query.tokens
        prompts = self.prompts(tokens)
        place = lines.tokens.place(verified + tokens)
        if self._one_rank:
            shares = lines.products_and_experts(place)
        else:
            prompts_mean = (tokens + elsewhere * (self.ranks - 1.0)) / self.ranks
            mean = verified * self.sizes.share + prompts_mean
            uneven = beside_stages(self.uneven_s, tokens) * (tokens - prompts_mean)
            experts = lines.experts(lines.tokens.place(mean)) + uneven
            shares = lines.products(place) + experts
        return (
            shares
            + lines.rows(lines.tokens.place(decodes * self.query.sampled + prompts))
            + lines.attention(lines.decodes.place(decodes))
            + self._reading(tokens / self.sizes.piece)
        )

    def _reading(self, pieces: Array) -> Array:
        """Attention of pieces of prompts in one kernel [s], [stages, ..., configs]; of less than a
        piece linear through that of a prompt's last piece.
        """
        rest, below, beyond = self._part_of_a_piece
        below, beyond, each, least = (
            beside_stages(seconds, pieces)
            for seconds in (below, beyond, self.prompts_s, self.prompts_least_s)
        )
        first = np.minimum(pieces, 1.0)
        one = below * np.minimum(first, rest) + beyond * np.maximum(first - rest, 0.0)
        seconds: Array = np.maximum(one, (least + each * pieces) * (pieces > 1.0))
        return seconds

    def prompts(self, tokens: Array) -> Array:
        """Number of prompts that the prompt tokens of a step belong to."""
        return np.minimum(np.ceil(tokens / self.sizes.isl - 1e-9), tokens)


def beside_stages(numbers: Array, sizes: Array) -> Array:
    """Numbers [stages, configs] in the shape of those of steps, [stages, ..., configs].

    sizes: of the steps, [..., configs].
    """
    return numbers.reshape(len(numbers), *(1,) * (sizes.ndim - 1), -1)


# ------------------------------------------------------------------------------- linear in between


class _Lines:
    """The lines of `ModelTimes`, one for each quantity that time depends on."""

    def __init__(self, times: ModelTimes) -> None:
        self.tokens, self.decodes = nodes_of(times.nodes), nodes_of(times.decode_nodes)
        self._products_s, self._experts_s = times.products_s, times.experts_s
        self._rows_s, self._decodes_s = times.rows_s, times.decodes_s

    @cached_property
    def products(self) -> Line:
        return self.tokens.line(self._products_s)

    @cached_property
    def experts(self) -> Line:
        return self.tokens.line(self._experts_s)

    @cached_property
    def rows(self) -> Line:
        return self.tokens.line(self._rows_s)

    @cached_property
    def products_and_experts(self) -> Line:
        return self.tokens.line(self._products_s + self._experts_s)

    @cached_property
    def all_shares(self) -> Line:
        return self.tokens.line(self._products_s + self._experts_s + self._rows_s)

    @cached_property
    def attention(self) -> Line:
        return self.decodes.line(self._decodes_s)
