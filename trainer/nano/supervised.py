"""Supervised learning on demonstrations: what nano's warm start and `rods-train sft` share. A
demonstration is a trace whose replies are imitated: only the policy's own tokens are learnt, in the
same tokens, template and order as in rollouts."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from rods.episode.engine import Trace
from rods.trainer.chat import Chat

Progress = Callable[[int, int, float], None]  # (steps done, steps in all, loss)
Encoded = tuple[list[int], list[int]]


def fit(
    model: Any,
    batches: Iterator[tuple[torch.Tensor, torch.Tensor]],
    optimizer: Optimizer,
    *,
    steps: int,
    warm_up: int,
    progress: Progress | None = None,
    bf16: bool = False,
    micro_batch: int = 0,
) -> None:
    """Takes `steps` optimizer steps over `batches`, `micro_batch` sequences a backward pass (0:
    all); the loss is the mean over all tokens of a batch. The learning rate rises for `warm_up`
    steps and falls linearly. `bf16`: matrix products in bfloat16."""
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / warm_up, 1 - step / steps))
    device = next(model.parameters()).device
    for step in range(1, steps + 1):
        ids, own = (torch.split(part, micro_batch or len(part)) for part in next(batches))
        learnt = [int(part[:, 1:].sum()) for part in own]
        whole = 0.0
        optimizer.zero_grad()
        for rows, mask, count in zip(ids, own, learnt, strict=True):
            read = int(mask.any(0).nonzero()[-1]) + 1  # behind the last token to learn is padding
            rows = rows[:, :read]
            mask = mask[:, :read]
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                loss = imitation_loss(model, rows.to(device), mask.to(device)) * (
                    count / sum(learnt)
                )
            loss.backward()  # type: ignore[no-untyped-call]
            whole += loss.item()
        optimizer.step()
        schedule.step()
        if progress is not None:
            progress(step, steps, whole)


def encode(chat: Chat, trace: Trace) -> Encoded:
    """A conversation as rollouts see it: its tokens, and 1 for those that the policy wrote."""
    replies = [index for index, message in enumerate(trace.messages) if message.role == "assistant"]
    tokens = chat.prompt(trace.messages[: replies[0]])
    mask = [0] * len(tokens)
    for index, following in zip(replies, [*replies[1:], len(trace.messages)], strict=True):
        shown = trace.messages[index + 1 : following]
        written = [*chat.reply(trace.messages[index].content), chat.closing(shown)]
        results = chat.continuation(shown) if shown else []
        tokens += written + results
        mask += [1] * len(written) + [0] * len(results)
    return tokens, mask


def in_batches(
    pad: int,
    demonstrations: Iterable[list[Encoded]],
    size: int,
    rng: random.Random,
    *,
    rest: bool = False,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Token ids and a mask of the policy's own, both [size, longest], rows in order of length:
    batches drawn from `rng`, so that short conversations and long ones share the mean of a batch.
    What is left over of a list is dropped, or makes a smaller batch (`rest`)."""
    for part in demonstrations:
        drawn = rng.sample(part, len(part))
        for start in range(0, len(drawn) if rest else len(drawn) - size + 1, size):
            rows = sorted(drawn[start : start + size], key=lambda pair: len(pair[0]))
            longest = len(rows[-1][0])
            ids = [tokens + [pad] * (longest - len(tokens)) for tokens, _ in rows]
            own = [mask + [0] * (longest - len(mask)) for _, mask in rows]
            yield torch.tensor(ids), torch.tensor(own, dtype=torch.bool)


def imitation_loss(model: Any, ids: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the policy's tokens. Padding stands on the right, where causal attention
    never looks."""
    hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][own[:, 1:]]
    return cross_entropy(model.get_output_embeddings()(hidden), ids[:, 1:][own[:, 1:]])
