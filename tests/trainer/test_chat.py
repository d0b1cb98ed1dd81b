"""Conversations as tokens, by the chat templates that TRL packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.fixtures.chat_templates import names, template, tokenizer
from rods import dialects
from rods.dialects import Message
from rods.errors import UserError
from rods.trainer import fit
from rods.trainer.chat import Chat
from tests.environments import load

TOOLS = list(load("desk").tools().values())[:4]
HERMES = dialects.load("hermes")
OPENING = [Message("system", "Be brief."), Message("user", "Begin.")]
THINKING = "qwen3_5_think"  # its generation prompt ends with <think>


def chat(name: str) -> Chat:
    return Chat(tokenizer(template(name)), Path(name))


def shown(name: str, messages: list[Message]) -> str:
    talk = chat(name)
    return str(talk.tokenizer.decode(talk.prompt(messages)))


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith(("glm", "gpto"))])
def test_hermes_is_rendered_by_every_template_that_closes_a_reply_with_its_end(name: str) -> None:
    found = fit.parts(chat(name), HERMES, TOOLS)
    assert len(found) == 6 and all(part.verdict != "refused" for part in found)


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_1", "lfm2", "gemma3", "phi3", "cohere"])
def test_templates_that_append_are_rendered_as_they_would_render_all_of_it(name: str) -> None:
    assert {part.verdict for part in fit.parts(chat(name), HERMES, TOOLS)} == {"equal"}


def test_what_was_sampled_is_kept_where_a_template_would_rewrite_it() -> None:
    """Its template drops the thinking of earlier turns."""
    found = {part.name: part.verdict for part in fit.parts(chat(THINKING), HERMES, TOOLS)}
    assert found["a call and its result"] == "equal"
    assert found["the next user turn"] == "kept"


def test_a_template_that_ends_no_reply_is_refused_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r"does not close a reply.*set policy\.dialect"):
        fit.check(chat("gptoss"), HERMES, TOOLS)


def test_a_template_without_a_system_has_its_text_before_the_users() -> None:
    assert "<start_of_turn>user\nBe brief.\n\nBegin.<end_of_turn>" in shown("gemma", OPENING)


def test_a_template_that_takes_blocks_alone_is_given_blocks() -> None:
    assert "Be brief." in shown("idefics3", OPENING) and "User: Begin." in shown(
        "idefics3", OPENING
    )


def test_an_error_of_a_template_is_told_without_its_trace() -> None:
    broken = tokenizer("{{ raise_exception('only gods may speak') }}<|im_end|>")
    with pytest.raises(UserError) as refused:
        Chat(broken, Path("here")).prompt(OPENING)
    assert "only gods may speak" in refused.value.what
    assert "\n" not in str(refused.value) and refused.value.remedy


def test_thinking_that_the_template_opens_is_part_of_the_reply_and_closed_in_what_is_taught() -> (
    None
):
    talk = chat(THINKING)
    assert talk.opening == "<think>\n"
    sampled = talk.tokens("a room\n</think>\n\n<answer>Done.</answer>")
    said = talk.text(sampled)
    assert said == "<think>\na room\n</think>\n\n<answer>Done.</answer>"
    assert dialects.load("tags").parse(said).answer == "Done."
    assert talk.reply(said) == sampled
    assert talk.text(talk.reply("Done.")) == "<think>\n\n</think>\n\nDone."
    assert chat("qwen2_5").text(chat("qwen2_5").reply("Done.")) == "Done."


def test_a_reply_without_the_end_of_its_thinking_is_no_answer() -> None:
    talk = chat(THINKING)
    assert HERMES.parse(talk.text(talk.tokens("so many rooms"))).error


def test_the_models_own_end_tokens_end_a_reply(tmp_path: Path) -> None:
    made = tokenizer(template("glm4moe"))
    ids = made.convert_tokens_to_ids(["<|user|>", "<|observation|>"])
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    assert Chat(made, tmp_path).ends == {*ids, made.eos_token_id}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ids[0]}))
    assert Chat(made, tmp_path).ends == {ids[0], made.eos_token_id}
