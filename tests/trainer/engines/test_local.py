"""Rollouts are token in, token out; the cache changes nothing; every rollout has draws of its
own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from bench.score_spread import replies
from rods.episode.engine import NeedText
from rods.errors import UserError
from rods.trainer.chat import Chat
from rods.trainer.engines import local
from rods.trainer.engines.local import LocalEngine, nucleus
from tests.trainer import nano_parts

pytestmark = pytest.mark.numeric


# kinds of models of others, as tiny ones, with a window that is much shorter than an episode
WINDOW = 16
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "sliding_window": WINDOW,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
}
FEW_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}


def engine_of(kind: str, **more: Any) -> LocalEngine:
    engine = nano_parts.engine()
    size = len(engine.chat.tokenizer)
    torch.manual_seed(3)
    shape = AutoConfig.for_model(kind, vocab_size=size, **TINY, **more)
    return LocalEngine(AutoModelForCausalLM.from_config(shape), engine.chat, engine.limits)


@pytest.mark.parametrize(
    "kind", ["nano", "mistral", "phi3", "gemma2", "gemma3_text", "gpt_oss", "qwen2"]
)
def test_greedy_rollouts_with_the_cache_equal_a_plain_forward_pass(kind):
    engine = (
        nano_parts.engine()
        if kind == "nano"
        else engine_of(kind, **(FEW_EXPERTS if kind == "gpt_oss" else {}))
    )
    engine.model.eval()
    samples = engine.rollouts(nano_parts.jobs(2), random_seed=0, greedy=True)
    # episodes of different length shared the batch
    assert len({len(sample.spans) for sample in samples}) > 1
    for sample in samples:
        ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
        with torch.inference_mode():
            likeliest = engine.model(input_ids=ids).logits[0].argmax(-1).tolist()
        start = len(sample.prompt_ids)
        for place, (token, own) in enumerate(
            zip(sample.completion_ids, sample.env_mask, strict=True)
        ):
            assert not own or likeliest[start + place - 1] == token


def test_the_mask_and_the_spans_mark_the_policys_tokens_and_nothing_else():
    engine = nano_parts.engine()
    for sample in engine.rollouts(nano_parts.jobs(), random_seed=4):
        messages = sample.trace.messages
        replies = [index for index, message in enumerate(messages) if message.role == "assistant"]
        assert sample.prompt_ids == engine.chat.prompt(messages[: replies[0]])
        assert len(sample.spans) == len(replies)
        shown = 0
        for (start, end), index, following in zip(
            sample.spans, replies, [*replies[1:], len(messages)], strict=True
        ):
            assert sample.env_mask[shown:start] == [0] * (start - shown)
            assert sample.env_mask[start:end] == [1] * (end - start)
            cut = sample.trace.end != "finished" and following == len(messages)
            assert (
                engine.chat.text(sample.completion_ids[start : end if cut else end - 1])
                == messages[index].content
            )
            shown = end
            if following < len(messages):
                between = engine.chat.continuation(messages[index + 1 : following])
                assert sample.completion_ids[end : end + len(between)] == between
        assert shown == len(sample.completion_ids)


@pytest.mark.slow
def test_in_bfloat16_a_weight_is_cast_once_for_a_batch_however_many_tokens_it_has():
    engine = nano_parts.engine()
    engine.bf16 = True
    embeddings = list(engine.model.get_input_embeddings().weight.shape)
    with torch.profiler.profile(record_shapes=True) as profile:
        samples = engine.rollouts(nano_parts.jobs(), random_seed=4)
    casts = [event for event in profile.events() if event.name == "aten::_to_copy"]
    assert sum(len(sample.completion_ids) for sample in samples) > 50
    assert [event.input_shapes[0] for event in casts].count(embeddings) == 1, (
        "the output head's, which are the same"
    )


def test_every_token_carries_the_log_probability_that_it_was_drawn_with():
    engine = nano_parts.engine(temperature=0.7, top_p=0.9)
    for sample in engine.rollouts(nano_parts.jobs(), random_seed=4):
        ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
        start = len(sample.prompt_ids)
        with torch.inference_mode():
            logits = engine.model(input_ids=ids).logits[0, start - 1 : -1]
        weights = nucleus((logits / 0.7).softmax(-1), 0.9)
        wanted = (weights.gather(-1, ids[0, start:, None])[:, 0] / weights.sum(-1)).log()
        wanted[torch.tensor(sample.env_mask) == 0] = 0
        assert sample.logprobs == pytest.approx(wanted.tolist(), abs=1e-4)
    greedy = engine.rollouts(nano_parts.jobs(), random_seed=4, greedy=True)
    assert not any(any(sample.logprobs) for sample in greedy)


def test_a_rollouts_draws_do_not_depend_on_its_neighbours():
    engine = nano_parts.engine()
    jobs = nano_parts.jobs()
    together = engine.rollouts(jobs, random_seed=9)
    alone = engine.rollouts(jobs[:1], random_seed=9)
    assert alone[0].completion_ids == together[0].completion_ids
    assert engine.rollouts(jobs[:1], random_seed=10)[0].completion_ids != alone[0].completion_ids
    twins = engine.rollouts([jobs[0], jobs[0]], random_seed=9)
    assert twins[0].completion_ids != twins[1].completion_ids


def test_episodes_go_on_while_others_are_writing_with_the_same_tokens(
    monkeypatch: pytest.MonkeyPatch,
):
    engine = nano_parts.engine()
    jobs = nano_parts.jobs() * 4
    cells: list[int] = []
    advance = local._Batch._advance

    def counted(batch: Any, cache: Any, ids: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        cells.append(ids.numel())
        return advance(batch, cache, ids, counts)

    monkeypatch.setattr(local._Batch, "_advance", counted)
    samples = {}
    spent = {}
    for handed in (0.01, local.HANDED, 1):
        monkeypatch.setattr(local._Batch, "handed", handed)
        samples[handed] = [
            (sample.completion_ids, sample.spans) for sample in engine.rollouts(jobs, random_seed=6)
        ]
        spent[handed] = sum(cells)
        cells.clear()
    assert samples[0.01] == samples[local.HANDED] == samples[1]
    assert spent[0.01] < spent[local.HANDED] < spent[1]


def test_a_reply_to_messages_that_are_rendered_whole_is_the_one_that_the_episode_begins_with():
    engine = nano_parts.engine()
    jobs = nano_parts.jobs(2)
    began = engine.rollouts(jobs, random_seed=3)
    needs = {place: NeedText(sample.trace.messages[:2], 0, 0) for place, sample in enumerate(began)}
    first = replies(engine, needs, 3)
    assert [reply.text for reply in first] == [
        sample.trace.turns[0].steps[0].text for sample in began
    ]
    second = replies(engine, {1: needs[1]}, 3)
    assert second == first[1:2], "a draw is keyed by its place"


@pytest.mark.parametrize(
    "kind, layers",
    [("lfm2", ["conv", "full_attention"] * 2), ("qwen3_5_text", ["linear_attention"] * 4)],
)
def test_layers_that_do_not_attend_to_what_came_before_are_refused_in_rollouts_alone(kind, layers):
    engine = engine_of(kind, layer_types=layers)  # which a server may roll out
    with pytest.raises(UserError, match=f"{layers[0]}.*a server roll out"):
        engine.rollouts(nano_parts.jobs(1), random_seed=0)


def test_replies_cut_by_length_and_by_the_context_end_the_episode_by_name():
    endless = nano_parts.engine(max_reply_tokens=4)
    endless.chat.ends = frozenset()
    assert {sample.trace.end for sample in endless.rollouts(nano_parts.jobs(), random_seed=0)} == {
        "length"
    }
    prompt = len(endless.rollouts(nano_parts.jobs()[:1], random_seed=0)[0].prompt_ids)
    cramped = nano_parts.engine(max_context_tokens=prompt + 2)
    cramped.chat.ends = frozenset()
    sample = cramped.rollouts(nano_parts.jobs()[:1], random_seed=0)[0]
    assert sample.trace.end == "context" and len(sample.completion_ids) == 2
    full = nano_parts.engine(max_context_tokens=16)
    sample = full.rollouts(nano_parts.jobs()[:1], random_seed=0)[0]
    assert sample.trace.end == "context" and sample.completion_ids == []


def test_the_nucleus_is_the_smallest_set_that_reaches_top_p():
    weights = torch.tensor([[0.1, 0.5, 0.15, 0.25]])
    assert (nucleus(weights, 0.7) > 0).tolist() == [[False, True, False, True]]
    assert (nucleus(weights, 0.4) > 0).tolist() == [[False, True, False, False]]


def test_a_tokenizer_without_a_chat_template_is_refused_with_a_remedy():
    tokenizer = nano_parts.chat().tokenizer
    tokenizer.chat_template = None
    with pytest.raises(UserError, match=r"no chat template.*chat_template\.jinja"):
        Chat(tokenizer, Path("folder"))


def test_a_folder_without_a_model_is_refused_with_its_path(tmp_path: Path):
    with pytest.raises(UserError, match=str(tmp_path)):
        Chat.load(tmp_path)


def test_weights_that_do_not_fit_their_config_are_refused_with_their_path(tmp_path: Path):
    nano_parts.saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 8}))
    with pytest.raises(UserError, match="weights of another shape than config") as refused:
        Chat.load(tmp_path).load_model()
    assert refused.value.where == str(tmp_path)


class OnGpu(torch.Tensor):
    """Numbers on the CPU that pass for a GPU's, of which torch refuses running sums in
    deterministic mode."""

    is_cuda = True

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        if function is torch.Tensor.cumsum and torch.are_deterministic_algorithms_enabled():
            raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation")
        return super().__torch_function__(function, types, args, kwargs or {})


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_tokens_can_be_drawn_on_a_gpu_in_deterministic_mode(monkeypatch: pytest.MonkeyPatch):
    engine = nano_parts.engine(top_p=0.9)
    usual = engine.rollouts(nano_parts.jobs(), random_seed=4)
    advance = local._Batch._advance
    monkeypatch.setattr(
        local._Batch,
        "_advance",
        lambda batch, cache, ids, counts: advance(batch, cache, ids, counts).as_subclass(OnGpu),
    )
    with deterministic():
        drawn = engine.rollouts(nano_parts.jobs(), random_seed=4)
    assert [one.completion_ids for one in drawn] == [one.completion_ids for one in usual]
    assert [one.logprobs for one in drawn] == [one.logprobs for one in usual]
