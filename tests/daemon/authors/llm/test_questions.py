"""One question, until its answer can be read: constrained, tagged, told what was wrong, given
up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods import prompts
from rods.asking import AnswerForm, Question
from rods.composing.records import ComposeError
from rods.config import parse_config
from rods.daemon.authors.llm.questions import Asker
from rods.llm import Completion, EndpointError, Usage, wire
from tests.daemon.authors.llm.world import asker_at, assignment, playing

VERDICT = {"type": "string", "enum": ["aligned", "misaligned"]}
VERDICTS = {"type": "array", "items": VERDICT, "minItems": 1, "maxItems": 1}
FORM = AnswerForm(
    {"verdict": VERDICTS, "problem": {"type": "string"}}, optional=frozenset({"problem"})
)


async def ask(asker: Asker, function: str | None = None, **options: Any) -> Any:
    fields = {"turns": "…", "count": "1"}
    question = Question(
        "query_verification",
        fields,
        FORM,
        lambda answer: answer["verdict"],
        stage="verification",
        **options,
    )
    return await asker.ask_keyed(
        assignment().rng,
        question,
        "query_verify_no_tag",
        turn=2,
        functions=[function] if function else [],
    )


@pytest.mark.parametrize("habit", ["obedient", "learning", "thinking", "wild", "parrot"])
async def test_a_model_is_asked_until_its_answer_can_be_read(stub: Stub, habit: str) -> None:
    stub.use(playing(habit))
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls) as asker:
        asker.tries = 4
        assert await ask(asker) == ["aligned"]
    assert (
        len(calls) == {"obedient": 1, "learning": 2, "thinking": 1, "wild": 4, "parrot": 3}[habit]
    )
    assert {(call.stage, call.account) for call in calls} == {("verification", "1-x#0")}
    assert {call.template for call in calls} == {
        f"query_verification@{prompts.load('query_verification').hash}"
    }


async def test_an_endpoint_without_schemas_is_asked_for_tags(stub: Stub) -> None:
    stub.use(playing("obedient"))
    async with asker_at(stub, structured=False) as asker:
        assert await ask(asker) == ["aligned"]
        assert asker.hashes == {"query_verification": prompts.load("query_verification").hash}


async def test_a_constrained_answer_that_is_cut_short_leads_to_tags(stub: Stub) -> None:
    stub.use(playing("tags_only", rules=[("response_format", "length")]))
    async with asker_at(stub) as asker:
        assert await ask(asker) == ["aligned"]
        assert asker.account.calls == 2


async def test_a_schema_that_the_server_refuses_leads_to_tags(stub: Stub) -> None:
    stub.use(playing("tags_only", refuse_schema=True))
    async with asker_at(stub) as asker:
        assert await ask(asker) == ["aligned"]


async def test_what_never_fits_is_the_named_error_with_what_was_said(stub: Stub) -> None:
    stub.use(playing("stubborn"))
    async with asker_at(stub) as asker:
        with pytest.raises(ComposeError) as caught:
            await ask(asker, function="send_mail")
        assert asker.account.calls == asker.tries
    error = caught.value
    assert (error.type, error.turn, error.function) == ("query_verify_no_tag", 2, "send_mail")
    assert error.said == "I would rather not." and "no JSON object" in error.detail


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("length", "cut short"),
        ("empty_choices", "empty"),
        ("abort_midway", "aborted"),
        ("content_filter", "withheld"),
        ("huge", "characters"),
        ("no_room", "room"),
    ],
)
async def test_bad_answers_are_the_model_s_failure(stub: Stub, fault: str, told: str) -> None:
    stub.use(playing("obedient", faults={fault: 1.0}))
    async with asker_at(stub) as asker:
        with pytest.raises(ComposeError, match=told):
            await ask(asker)
        assert asker.account.calls == (1 if fault == "no_room" else asker.tries)


async def test_a_broken_endpoint_is_no_candidate_s_failure(stub: Stub) -> None:
    stub.use(playing("obedient", faults={"500": 1.0}))
    async with asker_at(stub) as asker:
        with pytest.raises(EndpointError):
            await ask(asker)


@pytest.mark.parametrize(
    ("habit", "structured"),
    [("long_thinking", True), ("long_thinking", False), ("open_thinking", False)],
)
async def test_a_model_that_cannot_help_thinking_is_given_room_for_it(
    stub: Stub, habit: str, structured: bool
) -> None:
    stub.use(playing(habit, cuts=True))
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls, structured=structured) as asker:
        asker.tries = 1
        assert await ask(asker) == await ask(asker) == ["aligned"]
    assert [call.outcome for call in calls] == ["length", "stop", "stop"], (
        "found out once, then known"
    )
    assert {call.constrained for call in calls} == {structured}


async def test_a_model_that_rambles_is_not_given_more_room_than_once(stub: Stub) -> None:
    stub.use(playing("rambling", cuts=True))
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls, structured=False) as asker:
        for _ in range(2):
            with pytest.raises(ComposeError, match="cut short"):
                await ask(asker)
    assert [call.tokens_out > 1024 for call in calls].count(True) == 1 and len(
        calls
    ) == 2 * asker.tries + 1


async def test_thoughts_in_a_field_of_their_own_are_seen() -> None:
    reply = {
        "choices": [
            {"finish_reason": "length", "message": {"content": None, "reasoning_content": "Well, "}}
        ]
    }
    sent = Completion("", "other", "stub", "stub", tokens_in=10, constrained=True)
    assert wire.decode(json.dumps(reply).encode(), sent, 0.1).thought
    for text in ('{"reason": "no </think> here"}', "<verdict>aligned</verdict>", " " * 100_000):
        reply = {"choices": [{"finish_reason": "stop", "message": {"content": text}}]}
        assert not wire.decode(json.dumps(reply).encode(), sent, 0.1).thought


@pytest.mark.slow
@pytest.mark.parametrize("thinking", ["unchanged", "on", "off"])
async def test_a_role_s_settings_are_sent(tmp_path: Path, thinking: str) -> None:
    given = {"tokens": 700, "temperature": 0.25, "top_p": 0.5, "thinking": thinking, "reason": 1234}
    roles = parse_config({"roles": {"verification": given}}, where="test").roles
    extra = {"chat_template_kwargs": {"own": 1}}
    with Stub(playing("obedient"), bodies=tmp_path / "bodies") as stub:
        async with asker_at(stub, extra=extra, thinking_tokens=5000) as asker:
            asker.roles = roles
            await ask(asker, parts=30)
    (body,) = map(json.loads, (tmp_path / "bodies").read_text().splitlines())
    assert (body["temperature"], body["top_p"]) == (0.25, 0.5)
    assert body["max_tokens"] == 730 + 5000 * (thinking == "on")
    assert (
        body["response_format"]["json_schema"]["schema"]["properties"]["reason"]["maxLength"]
        == 1234
    )
    switch = {"on": {"enable_thinking": True}, "off": {"enable_thinking": False}}
    assert body["chat_template_kwargs"] == {"own": 1, **switch.get(thinking, {})}
