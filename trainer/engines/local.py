"""Rolls out many episodes together with a local causal language model: token in, token out. It
works for every folder that transformers loads as one with a chat template whose layers attend to
all that came before, or to a sliding window of it. The prompt is prefilled once for all rollouts
that share it, and the key-value cache is kept across turns. Once half of the replies in the batch
have ended, these episodes go on, and are back in it while the others write.

Every rollout draws from a stream of its own, keyed by (random seed, place in the batch), whatever
else is in the batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from transformers.cache_utils import Cache

from rods import config
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.errors import UserError
from rods.trainer import torch_settings
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Conversation, Sample

HANDED = 0.5  # of the rows of a batch: so many ended replies are handed on together
BELOW_ONE = 1 - 2**-22  # float32 keeps it, times any total, below that total


FULL = "full_attention"  # names of kinds of layers, as transformers gives them
SLIDING = "sliding_attention"


class LocalEngine:
    """A model with its tokenizer and the limits of a rollout. The model may be trained between
    calls, also where a server rolls out. Rollouts here raise UserError for one with layers that do
    not attend to what came before: what they keep is no row of keys and values."""

    def __init__(
        self, model: Any, chat: Chat, limits: config.Rollouts, *, bf16: bool = False
    ) -> None:
        self.model = model
        self.chat = chat
        self.limits = limits
        self.bf16 = bf16

    @staticmethod
    def load(
        folder: Path,
        limits: config.Rollouts,
        policy: config.PolicySettings | None = None,
        *,
        bf16: bool = False,
    ) -> "LocalEngine":
        """`policy` says how its chat template is used; `bf16`: matrix products in bfloat16. Raises
        UserError for a folder without weights, tokenizer or chat template."""
        chat = Chat.load(folder, policy)
        return LocalEngine(chat.load_model(), chat, limits, bf16=bf16)

    @staticmethod
    def load_alone(
        folder: Path,
        limits: config.Rollouts,
        operation: config.Operation,
        policy: config.PolicySettings,
    ) -> "LocalEngine":
        """`load` for a process that only scores or warms up: threads and number format of
        `operation` for that `policy`, on the GPU if there is one."""
        torch_settings.settle_threads(operation)
        bf16 = torch_settings.bf16(operation, policy.kind)
        engine = LocalEngine.load(folder, limits, policy, bf16=bf16)
        if torch.cuda.is_available():
            engine.model.to("cuda")
        return engine

    def rollouts(
        self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False
    ) -> list[Sample]:
        """Runs `jobs` as one batch (rods.trainer.engines.base.RolloutEngine). Which rows stand
        together depends on what is drawn, never on a clock."""
        batch = _Batch(self, range(first, first + len(jobs)), random_seed, greedy)
        with self._computing():
            traces = run_lockstep(jobs, batch.complete)
        return [row.sample(trace) for trace, row in zip(traces, batch.rows, strict=True)]

    @contextmanager
    def _computing(self) -> Iterator[None]:
        training = self.model.training
        self.model.eval()
        try:
            # In inference mode autocast keeps no weight that it has cast: it would cast each of
            # them for every token.
            ungraded = torch.no_grad() if self.bf16 else torch.inference_mode()
            with (
                ungraded,
                torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bf16),
            ):
                yield
        finally:
            self.model.train(training)


class _Batch:
    """The state of one call of `LocalEngine.rollouts`."""

    handed: float = HANDED

    def __init__(
        self, engine: LocalEngine, places: Sequence[int], random_seed: int, greedy: bool
    ) -> None:
        self.model = engine.model
        self.kinds = layer_kinds(engine.model.config)
        if others := self.kinds - {FULL, SLIDING}:
            raise UserError(
                f"the policy has layers of other kinds than attention: {', '.join(sorted(others))}",
                where="policy.model",
                remedy="let a server roll out (operation.rollout_servers)",
            )
        self.chat = engine.chat
        self.limits = engine.limits
        self.greedy = greedy
        self.rows = [Conversation() for _ in places]
        self.uniforms = [
            np.random.Generator(np.random.Philox(key=[random_seed % 2**64, place]))
            for place in places
        ]
        self.device = next(self.model.parameters()).device
        self.cache = RowCache(0, self.device)
        self.cached: list[int] = []  # the job of every row of the cache
        # of the replies that are being written, by job: tokens with their log-probabilities
        self.written: dict[int, list[tuple[int, float]]] = {}

    def complete(self, waiting: Sequence[tuple[int, NeedText]]) -> list[Reply | None]:
        """Replies of some of the waiting episodes, one at least; None where one is still being
        written, or has not begun."""
        replies: dict[int, Reply] = {}
        for job, need in waiting:
            if job not in self.written:
                self.rows[job].ask(self.chat, need)
                if self.rows[job].room(self.limits) < 1:
                    replies[job] = Reply("", "context")
                else:
                    self.written[job] = []
        if self.written:
            replies |= self._generate()
        return [replies.get(job) for job, _ in waiting]

    def _show(self) -> torch.Tensor:
        """Runs what the episodes with an open reply were shown since the last token that was drawn
        for them, those with about as much of it together; the logits behind it, [rows,
        vocabulary]. A prompt runs once for all rollouts that share it."""
        self.cache.reserve(max(self.rows[job].length for job in self.written))
        place = {job: row for row, job in enumerate(self.cached)}
        parts: dict[int, list[int]] = {}
        for job in self.written:
            size = len(self.rows[job].pending).bit_length() if job in place else 0
            parts.setdefault(size, []).append(job)
        caches = []
        logits = []
        for size, jobs in parts.items():
            pending = [tuple(self.rows[job].pending) for job in jobs]
            if size:
                blocks = pending
                cache = self.cache.taken([place[job] for job in jobs])
            else:
                blocks = list(dict.fromkeys(pending))
                cache = RowCache(len(blocks), self.device)
            width = max(map(len, blocks))
            ids = [[self.chat.pad] * (width - len(block)) + [*block] for block in blocks]
            counts = torch.tensor([len(block) for block in blocks], device=self.device)
            after = self._advance(cache, torch.tensor(ids, device=self.device), counts)
            if not size:
                source = [blocks.index(prompt) for prompt in pending]
                cache = cache.taken(source)
                after = after[source]
            caches.append(cache)
            logits.append(after)
        self.cache = RowCache.joined(caches)
        self.cached = [job for jobs in parts.values() for job in jobs]
        return torch.cat(logits)

    def _advance(self, cache: "RowCache", ids: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Appends a block of tokens to every cache row; the logits after each, [rows,
        vocabulary]."""
        positions, full = cache.place(counts, ids.shape[1], self.model.dtype)
        mask: Any = full
        if SLIDING in self.kinds:  # transformers would give every layer the one mask as it is
            text = self.model.config.get_text_config()
            mask = cache.slid(full, text.sliding_window)
            if getattr(text, "layer_types", None):
                mask = {FULL: full, SLIDING: mask}
        block = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        out = self.model(**block, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.lengths += counts
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits

    def _generate(self) -> dict[int, Reply]:
        """Samples until some of the open replies have ended or reached their limit; those. The
        others go on from there at the next call."""
        logits = self._show()
        jobs = self.cached
        rows = [self.rows[job] for job in jobs]
        written = [self.written[job] for job in jobs]
        uniforms = [self.uniforms[job] for job in jobs]
        open_rows = list(range(len(jobs)))
        while True:
            chosen, chances = self._choose(logits, uniforms, open_rows)
            for index in open_rows:
                written[index].append((chosen[index], chances[index]))
            open_rows = [
                i
                for i in open_rows
                if chosen[i] not in self.chat.ends and len(written[i]) < rows[i].room(self.limits)
            ]
            if len(jobs) - len(open_rows) >= self.handed * len(jobs):
                break
            # A reply that has ended waits: its row is fed padding that neither counts nor is ever
            # seen.
            ids = torch.tensor(chosen, device=self.device)[:, None]
            counts = torch.zeros(len(jobs), dtype=torch.long, device=self.device)
            counts[open_rows] = 1
            logits = self._advance(self.cache, ids, counts)
        replies = {}
        for index, job in enumerate(jobs):
            if index in open_rows:
                rows[index].pending = [chosen[index]]
            else:
                tokens, logprobs = zip(*self.written.pop(job), strict=True)
                replies[job] = rows[index].take(self.chat, [*tokens], self.limits, logprobs)
        return replies

    def _choose(
        self, logits: torch.Tensor, uniforms: list[np.random.Generator], open_rows: list[int]
    ) -> tuple[list[int], list[float]]:
        """The next token of every row (the likeliest, or by inverting the cumulated distribution at
        a uniform draw) and the log-probabilities of these draws. Only open rows
        draw, so that a rollout's stream does not depend on how long its neighbours' replies are."""
        if self.greedy:
            best: list[int] = logits.argmax(-1).tolist()
            return best, [0.0] * len(best)
        weights = (logits / self.limits.temperature).softmax(-1)
        if self.limits.top_p < 1:
            weights = nucleus(weights, self.limits.top_p)
        cumulated = running_sums(weights)
        draws = np.zeros(len(uniforms), dtype=np.float32)
        for row in open_rows:
            draws[row] = min(uniforms[row].random(), BELOW_ONE)
        targets = torch.from_numpy(draws)[:, None].to(self.device) * cumulated[:, -1:]
        places = torch.searchsorted(cumulated, targets, right=True)
        logprobs: list[float] = (
            (weights.gather(-1, places) / cumulated[:, -1:]).log()[:, 0].tolist()
        )
        chosen: list[int] = places[:, 0].tolist()
        return chosen, logprobs


def layer_kinds(model_config: Any) -> set[str]:
    """The kinds of a model's layers, by the names that its configuration has for them."""
    text = model_config.get_text_config()
    if types := getattr(text, "layer_types", None):
        return set(types)
    return {FULL if getattr(text, "sliding_window", None) is None else SLIDING}


def nucleus(weights: torch.Tensor, top_p: float) -> torch.Tensor:
    """Zeroes what lies outside the smallest set of tokens whose weights reach `top_p`."""
    ordered, index = weights.sort(-1, descending=True)
    outside = running_sums(ordered) - ordered >= top_p
    return weights.scatter(-1, index, ordered.masked_fill(outside, 0.0))


def running_sums(weights: torch.Tensor) -> torch.Tensor:
    """Cumulative sums along the last dimension. A GPU adds in an order of its own each time, which
    torch refuses in deterministic mode; there the CPU adds."""
    if weights.is_cuda and torch.are_deterministic_algorithms_enabled():
        return weights.cpu().cumsum(-1).to(weights.device)
    return weights.cumsum(-1)


GROWTH = 64  # columns are added in such steps


class RowCache(Cache):  # type: ignore[misc]
    """A key-value cache for rows of different lengths that come and go: `lengths[row]` tokens per
    row and layer. Every row is stored from column 0 without holes, so a token's column is its
    position. Buffers start as zeros: masked columns are still multiplied (by 0), and uninitialised
    memory may hold NaN. Before a forward pass `place` is told where the block's tokens stand; every
    layer then writes its keys and values there and returns all that the block may attend to."""

    def __init__(self, rows: int, device: torch.device) -> None:
        super().__init__(layers=[])
        # keys, then values of each layer: [rows, heads, columns, head size], as attention reads it
        self.kept: list[torch.Tensor] = []
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.columns = self.seen = 0  # the last column is scratch: padding is written there
        # where a block's tokens go, once `place` has said so
        self.rows = self.block = self.lengths[:, None]

    def taken(self, rows: Sequence[int]) -> "RowCache":
        """One of `rows`, in that order; a row named twice is there twice."""
        index = torch.tensor(rows, dtype=torch.long, device=self.lengths.device)
        other = RowCache(0, index.device)
        other.columns = self.columns
        other.kept = [old.index_select(0, index) for old in self.kept]
        other.lengths = self.lengths.index_select(0, index)
        return other

    @staticmethod
    def joined(parts: Sequence["RowCache"]) -> "RowCache":
        """One of the rows of all `parts`."""
        whole = RowCache(0, parts[0].lengths.device)
        whole.columns = max(part.columns for part in parts)
        for part in parts:
            part.reserve(whole.columns - 1)
        whole.kept = [torch.cat(old) for old in zip(*(part.kept for part in parts), strict=True)]
        whole.lengths = torch.cat([part.lengths for part in parts])
        return whole

    def reserve(self, tokens: int) -> None:
        """Makes room for rows of so many tokens, and for the scratch column."""
        if tokens >= self.columns:
            grown = -(-(tokens + 1) // GROWTH) * GROWTH
            more = (0, 0, 0, grown - self.columns)
            self.kept = [pad(old, more) for old in self.kept]
            self.columns = grown

    def place(
        self, counts: torch.Tensor, width: int, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Plans a left-padded block of `width` tokens, of which the last `counts[row]` are real:
        position ids [rows, width] and the additive mask [rows, 1, width, seen]. The caller advances
        `lengths`."""
        self.seen = int((self.lengths + counts).max())
        self.reserve(self.seen)
        offset = torch.arange(width, device=counts.device)[None, :] - width + counts[:, None]
        real = offset >= 0
        self.rows = torch.arange(len(counts), device=counts.device)[:, None]
        self.block = torch.where(real, self.lengths[:, None] + offset, self.columns - 1)
        columns = torch.arange(self.seen, device=counts.device)
        hidden = columns[None, None, :] > self.block[:, :, None]
        mask = torch.zeros(hidden.shape, dtype=dtype, device=counts.device).masked_fill_(
            hidden, torch.finfo(dtype).min
        )
        return torch.where(real, self.block, 0), mask[:, None]

    def slid(self, mask: torch.Tensor, window: int) -> torch.Tensor:
        """The mask that `place` gave, for layers in which a token attends to `window` tokens, with
        itself."""
        columns = torch.arange(self.seen, device=mask.device)
        passed = columns[None, None, :] <= self.block[:, :, None] - window
        return mask.masked_fill(passed[:, None], torch.finfo(mask.dtype).min)

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes a layer's block ([rows, heads, width, head size]) and returns all that is seen, in
        the same layout."""
        first = 2 * layer_idx
        for place, states in enumerate((key_states, value_states), first):
            if place == len(self.kept):
                rows, heads, _, size = states.shape
                self.kept.append(states.new_zeros(rows, heads, self.columns, size))
            self.kept[place][self.rows, :, self.block] = states.transpose(1, 2)
        keys, values = (old[:, :, : self.seen] for old in self.kept[first : first + 2])
        return keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.seen
