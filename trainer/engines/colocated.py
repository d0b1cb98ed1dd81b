"""Rolls out episodes with vLLM inside the trainer's own processes, on their GPUs: in lock-step, token in, token out.

TRL builds vLLM and gives it the weights before each batch (its VLLMGeneration); the prompts of a turn go to vLLM's
`LLM` directly, because every reply has its own room, seed and end tokens. Each process has a vLLM of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rods.canonical import keyed_random
from rods.config import Rollouts
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from trainer.chat import Chat
from trainer.engines.base import Conversation, Sample, ask_all


class ColocatedEngine:
    """`llm` is vLLM's, built to report log-probabilities after temperature and nucleus, as TRL does."""

    def __init__(self, chat: Chat, limits: Rollouts, llm: Any) -> None:
        self.chat, self.limits, self.llm = chat, limits, llm

    def rollouts(self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False) -> list[Sample]:
        """Runs `jobs` as one batch (trainer.engines.base.RolloutEngine)."""
        rows = [Conversation() for _ in jobs]
        seeds = [keyed_random(random_seed, "place", first + place).getrandbits(62) for place in range(len(jobs))]

        def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
            active, replies = ask_all(rows, waiting, self.chat, self.limits)
            asked = [self._sampling(rows[job], seeds[job], greedy) for job in active]
            prompts = [{"prompt_token_ids": rows[job].prompt + rows[job].completion} for job in active]
            made = self.llm.generate(prompts, sampling_params=asked, use_tqdm=False) if active else []
            for job, output in zip(active, made, strict=True):
                replies[job] = self._taken(rows[job], output.outputs[0], greedy)
            return [replies[job] for job, _ in waiting]

        traces = run_lockstep(jobs, complete)
        return [row.sample(trace) for row, trace in zip(rows, traces, strict=True)]

    def _sampling(self, row: Conversation, seed: int, greedy: bool) -> Any:
        from vllm import SamplingParams  # late: only where a run asks for it

        return SamplingParams(
            max_tokens=row.room(self.limits),
            temperature=0.0 if greedy else self.limits.temperature,
            top_p=1.0 if greedy else self.limits.top_p,
            seed=(seed + len(row.spans)) % 2**62,
            stop_token_ids=sorted(self.chat.ends),
            logprobs=None if greedy else 0,
            detokenize=False,
        )

    def _taken(self, row: Conversation, made: Any, greedy: bool) -> Reply:
        tokens = list(made.token_ids)
        if not tokens:
            return Reply("vLLM gave up on this reply", "infrastructure")
        drawn = () if greedy else [of[token].logprob for token, of in zip(tokens, made.logprobs, strict=True)]
        return row.take(self.chat, tokens, self.limits, drawn)
