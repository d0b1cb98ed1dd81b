"""Conversations as tokens, by the chat templates that TRL packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.fixtures.chat_templates import names, template, tokenizer
from rods import dialects
from rods.config import Config, parse_config
from rods.dialects import Message
from rods.dialects.families import family_of
from rods.errors import UserError
from rods.players import Players
from rods.trainer import fit
from rods.trainer.chat import Chat
from rods.worlds.sources import load_tasks
from tests.environments import ENVIRONMENTS, load

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


def configured(folder: Path, **policy: object) -> Config:
    return parse_config(
        {
            "data": {"tasks": "desk-small", "train": 2, "held_out": 1},
            "policy": {"kind": "transformers", "model": str(folder), **policy},
        },
        where="test",
    )


@pytest.mark.parametrize(
    ("name", "policy", "form"),
    [
        ("qwen2_5", {}, "ok   the form: qwen, that of Qwen2.5"),
        ("gemma3", {}, "note the form: hermes: the template documents no tools"),
        ("gemma3", {"dialect": "tags"}, "ok   the form: tags"),
        ("qwen3_instruct_2507", {"family": "granite4"}, "ok   the form: granite4"),
    ],
)
def test_plans_and_doctors_say_the_form_the_parts_and_the_tokens(
    tmp_path: Path, name: str, policy: dict[str, str], form: str
) -> None:
    tokenizer(template(name)).save_pretrained(tmp_path)
    config = configured(tmp_path, **policy)
    tasks = load_tasks(config.data, tmp_path)
    found, lengths = fit.of_policy(config, Players(ENVIRONMENTS, config), tasks)
    assert str(found[0]).startswith(form) and len(found) == 7
    assert all(finding.ok is not False for finding in found)
    assert lengths is not None
    assert lengths.prompt > 1_000 and 0 < lengths.generated < lengths.read


def test_a_family_that_no_table_has_and_a_template_of_unknown_form_are_refused(
    tmp_path: Path,
) -> None:
    tokenizer(template("muse_glimmer")).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r'no family here has.*policy\.dialect = "hermes"'):
        Chat.load(tmp_path, configured(tmp_path).policy)
    with pytest.raises(UserError, match=r"no family.*'gwen'.*qwen"):
        Chat.load(tmp_path, configured(tmp_path, family="gwen").policy)


def test_a_template_that_rewrites_calls_gives_way_to_trls_for_training(tmp_path: Path) -> None:
    """The first Qwen3's: the call of the last message has empty thinking before it."""
    tokenizer(template("qwen3")).save_pretrained(tmp_path)
    chat = Chat.load(tmp_path, configured(tmp_path).policy)
    assert chat.tokenizer.chat_template == template("qwen3_training")
    plain = Chat.load(tmp_path, configured(tmp_path, dialect="hermes").policy)
    assert plain.tokenizer.chat_template == template("qwen3")


def test_variables_of_the_template_are_given_to_it(tmp_path: Path) -> None:
    tokenizer(template("qwen3")).save_pretrained(tmp_path)
    quiet = {"chat_template_kwargs": {"enable_thinking": False}}
    off = Chat.load(tmp_path, configured(tmp_path, **quiet).policy)
    on = Chat.load(tmp_path, configured(tmp_path).policy)
    opened = [chat.opened([Message("user", "Begin.")]) for chat in (off, on)]
    assert opened[0].endswith("<think>\n\n</think>\n\n") and "<think>" not in opened[1]


def test_an_end_that_opens_the_next_message_stands_in_the_context(tmp_path: Path) -> None:
    """A policy of GLM that ended with <|endoftext|> where the template has <|user|>."""
    family = family_of(template("glm4moe"))
    assert family is not None
    made = tokenizer(template("glm4moe"), *family.ends)
    chat = Chat(made, tmp_path, family)
    user, eos = made.convert_tokens_to_ids(["<|user|>", "<|endoftext|>"])
    shown = [Message("user", "Go on.")]
    assert chat.closing(shown) == user and user in chat.ends
    assert chat.continuation(shown, user) == chat.continuation(shown)
    assert chat.continuation(shown, eos) == [user, *chat.continuation(shown)]
    result = [Message("tool", "done", name="ls")]
    assert made.decode([chat.closing(result)]) == "<|observation|>"
