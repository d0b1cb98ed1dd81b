"""Whether a task's ground truth fits the policy's context, by the tokenizer in the policy's folder:
a gate, and a count of the given tasks at a start and in `rods plan`.

Counted is what the texts of the conversation have, those of tools too. What a chat template writes
around them, and what the policy thinks, come on top: what is refused does not fit, and what passes
may be tight."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from rods import dialects
from rods.config import Config
from rods.environments.base import Environment
from rods.episode.drivers import Job, ground_truth
from rods.episode.goals import goal_of
from rods.errors import UserError
from rods.faults import Reason
from rods.files import read_regular
from rods.logs import log
from rods.tasks import AnyTask, Task

COUNTED = 1000  # tasks at most
TOKENIZER = 128 << 20  # bytes; the largest have a quarter of that


class Room:
    """The context of the policy of a run; `count` gives the tokens of a text."""

    def __init__(self, config: Config, count: Callable[[str], int]) -> None:
        policy = config.policy
        prompt = config.curriculum.stages[-1].prompt
        self._dialect = dialects.load(policy.dialect, prompt, policy.model, policy.family)
        self._most = config.rollouts.max_context_tokens
        self._count = lru_cache(maxsize=1024)(count)  # tasks have prompts in common

    @staticmethod
    def of(config: Config) -> "Room | None":
        """None where nobody here can count: the policy has no tokenizer of transformers, its folder
        is on another machine, or `tokenizers` is not installed."""
        if config.policy.kind != "transformers":
            return None
        try:
            from tokenizers import Tokenizer  # late: a daemon may run without

            file = Path(config.policy.model) / "tokenizer.json"
            tokenizer = Tokenizer.from_buffer(read_regular(file, TOKENIZER))
            return Room(config, lambda text: len(tokenizer.encode(text, add_special_tokens=False)))
        except (ImportError, OSError, ValueError, UserError) as error:
            log.warning("whether ground truths fit the context is not known", why=str(error))
            return None

    def reasons(self, environment: Environment, task: Task) -> list[Reason]:
        """Why it does not fit, with the turn in which the context is full; none where it does."""
        tokens = 0
        job = Job(task, environment, self._dialect, goal_of(environment, task))
        for need, reply in ground_truth(job):
            fresh = need.messages[need.fresh :]
            texts = [text for message in fresh for text in (message.content, *message.tools)]
            tokens += sum(map(self._count, [*texts, reply]))
            if tokens > self._most:
                why = f"its ground truth has {tokens:,} tokens by then, the context {self._most:,}"
                return [Reason(why, need.turn)]
        return []

    def cramped(self, tasks: Sequence[AnyTask], load: Callable[[str], Environment]) -> str:
        """How many of `tasks` do not fit, in words; empty where all do. Of many some are counted,
        in equal distances. `load` gives the environment of a name."""
        counted = [task for task in tasks if isinstance(task, Task)]
        counted = counted[:: 1 + len(counted) // COUNTED]
        over = [task.type for task in counted if self.reasons(load(task.environment.name), task)]
        if not over:
            return ""
        kinds = ", ".join(f"{type} {over.count(type)}" for type in sorted(set(over)))
        return (
            f"the ground truths of {len(over)} of {len(counted)} training tasks ({kinds}) do not "
            f"fit rollouts.max_context_tokens = {self._most}: nobody can solve them"
        )
