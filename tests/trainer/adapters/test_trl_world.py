"""A world in TRL's own tool loop: its tools are documented as they are, and an episode there is one
of ours."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.calls import Call
from rods.dialects.tags import Hermes
from rods.errors import UserError
from tests.conftest import WHOLE
from tests.environments import load
from tests.trainer.adapters.scripted import Line, moves, ours, tasks

pytestmark = [pytest.mark.slow, pytest.mark.needs("adapters")]
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def tokenizer(texts: list[str]) -> Any:
    """One of bytes and their frequent pairs, with the chat template of Qwen3 that TRL brings."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen3_instruct_2507_chat_template

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=4000, special_tokens=[*SPECIAL], initial_alphabet=alphabet
    )
    made.train_from_iterator(texts, trainer)
    named = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=made, **named)
    fast.chat_template = qwen3_instruct_2507_chat_template
    return fast


@pytest.mark.parametrize("name", ["desk", "bfcl"])
def test_a_chat_template_is_given_the_schemas_as_they_are(name: str) -> None:
    from rods.trainer.adapters.trl_world import World

    if name == "bfcl":
        pytest.importorskip("rods.worlds.bfcl").fetch()
    world = World(name)
    episode = world()
    tools = load(name).tools()
    speaks = tokenizer(["a"])
    speaks.chat_template = "{{ tools | tojson }}"
    shown = speaks.apply_chat_template(
        [{"role": "user", "content": "a"}],
        tools=[getattr(episode, tool) for tool in tools],
        tokenize=False,
    )
    assert json.loads(shown) == [
        {"type": "function", "function": tool.schema()} for tool in tools.values()
    ]
    assert {"desk": "maxLength", "bfcl": "default"}[name] in shown


def test_tasks_of_another_world_and_tools_that_cannot_be_methods_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rods.trainer.adapters import trl_world

    with pytest.raises(UserError, match="lives in 'desk' → give tasks of 'repository'"):
        trl_world.World("repository").row(tasks(1)[0])
    desk = load("desk")
    for name in ("reset", "answer", "_hidden"):
        taken = SimpleNamespace(name="desk", tools=lambda name=name: {**desk.tools(), name: None})
        monkeypatch.setattr(
            "rods.environments.loading.Environments.load", lambda *_, taken=taken: taken
        )
        with pytest.raises(UserError, match=f"cannot have one called '{name}'"):
            trl_world.World("desk")


@pytest.mark.timeout(1200)
def test_tasks_are_the_same_in_trls_tool_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from rods.trainer.adapters.trl_world import World

    world = World("desk")
    script = {task.id: task for task in tasks(200 if os.environ.get(WHOLE) else 50)}
    found = dict[str, tuple[list[Line], Any]]()
    docs = [str(tool.schema()) for tool in load("desk").tools().values()]
    speaks = tokenizer([*docs, *(text for task in script.values() for text in task.script)])

    class Scripted(GRPOTrainer):
        """TRL's trainer, whose policy is the script: the reply is the next one of the task that a
        prompt names."""

        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
            said = []
            for ids in prompt_ids:
                prompt = speaks.decode(ids)
                assert '"maxLength"' in prompt
                task = script[re.findall(r"task ([0-9a-f]{20})", prompt)[0]]
                made = prompt.count("<|im_start|>assistant")
                move = moves(task)[made - 1]
                last = made == len(moves(task))
                if isinstance(move, str) and not last:
                    move = Call("answer", {"text": move})
                text = move if isinstance(move, str) else Hermes().write([move])
                said.append(speaks(f"{text}<|im_end|>")["input_ids"])
            return said, None

        def _get_per_token_logps_and_entropies(
            self, model: Any, ids: Any, mask: Any, keep: int, *_: Any, **__: Any
        ) -> Any:
            return torch.zeros(len(ids), keep), torch.zeros(len(ids), keep), None

    def reward(
        prompts: list[Any], completions: list[Any], environments: list[Any], **more: Any
    ) -> list[float | None]:
        earned = world.reward(completions, environments)
        for prompt, completion, resolved in zip(prompts, completions, earned, strict=True):
            task = prompt[0]["content"].removeprefix("task ")
            assert found.get(task, (lines(prompt, completion), resolved)) == (
                lines(prompt, completion),
                resolved,
            )
            found[task] = lines(prompt, completion), resolved
        return earned

    rows = []
    for task in script.values():
        row = world.row(task)
        rows.append(
            {**row, "prompt": [{"role": "system", "content": f"task {task.id}"}, *row["prompt"]]}
        )
    sizes = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    config = LlamaConfig(vocab_size=len(speaks), max_position_embeddings=32_768, **sizes)
    arguments = {"per_device_train_batch_size": 4, "num_generations": 2,
                 "max_completion_length": 16_384, "per_device_eval_batch_size": 40,
                 "num_generations_eval": 1, "max_tool_calling_iterations": 100}  # fmt: skip
    trainer = Scripted(
        LlamaForCausalLM(config),
        reward_funcs=reward,
        environment_factory=world,
        train_dataset=Dataset.from_list(rows[:2]),
        eval_dataset=Dataset.from_list(rows),
        processing_class=speaks,
        args=GRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, report_to=[], disable_tqdm=True, **arguments
        ),
    )
    documented = [tool.schema() for tool in world.tools]
    assert sorted(tool["function"]["name"] for tool in trainer.tools) == sorted(
        schema["name"] for schema in documented
    )
    assert all(tool["function"] in documented for tool in trainer.tools)
    monkeypatch.setattr(trainer, "compute_loss", lambda *_, **__: torch.zeros(()))
    trainer.evaluate()
    assert found.keys() == script.keys()
    for name, (transcript, earned) in found.items():
        own, resolved = ours(script[name])
        assert transcript == own, name
        assert earned == pytest.approx(resolved / script[name].expected)
    assert len({earned for _, earned in found.values()}) > 3


def lines(prompt: list[Any], completion: list[Any]) -> list[Line]:
    """A transcript of TRL's as one of ours: a result of `answer` is what the user says next."""
    made: list[Line] = [("user", prompt[-1]["content"])]
    for message in completion:
        if message["role"] == "tool":
            made.append(("user" if message["name"] == "answer" else "result", message["content"]))
            continue
        for call in message.get("tool_calls") or ():
            name = call["function"]["name"]
            arguments = call["function"]["arguments"]
            made.append(
                ("answer", arguments["text"])
                if name == "answer"
                else ("call", Call(name, arguments))
            )
        if not message.get("tool_calls"):
            made.append(("answer", message["content"]))
    return made
