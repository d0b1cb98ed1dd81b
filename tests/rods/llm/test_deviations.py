"""The forms in which servers and models answer, each over HTTP by the real client and the reader
that daemon, doctor, judges and players share: what holds one answer is read at once, what holds
none or two is refused in words that say so, and what a server refuses by name is found out once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from rods.asking import AnswerForm, Question, Questioner, Unanswered, one_of
from rods.config import Endpoint
from rods.llm import Account, Client, RequestRefused

FORM = AnswerForm(
    {
        "verdict": one_of("pass", "fail"),
        "amount": {"type": "number"},
        "code": {"type": "string"},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"size": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            },
        },
    },
    optional=frozenset({"parts"}),
)
ANSWER = {"verdict": "pass", "amount": 5, "code": "5"}
TEXT = json.dumps({"reason": "So it is.", **ANSWER})
OTHER = json.dumps({**ANSWER, "verdict": "fail"})
PARTS = {**ANSWER, "parts": [{"size": 1}, {"size": None}]}
Body = dict[str, Any]


def message(content: Any, finish: Any = "stop", **fields: Any) -> Body:
    """A completion with this content; `fields` of its message."""
    return {
        "choices": [{"message": {"content": content, **fields}, "finish_reason": finish}],
        "model": "m",
    }


def call(arguments: Any) -> Body:
    """One native call."""
    return {"id": "1", "type": "function", "function": {"name": "answer", "arguments": arguments}}


def text(**changed: Any) -> str:
    return json.dumps({**ANSWER, **changed})


def stream(*deltas: Body, finish: str | None = "stop", done: bool = True) -> bytes:
    """The events of a streamed completion."""
    choices: list[Body] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    choices += [{"delta": {}, "finish_reason": finish}] if finish else []
    events = [json.dumps({"choices": [choice], "model": "m"}) for choice in choices]
    return "".join(f"data: {event}\n\n" for event in [*events, *["[DONE]"] * done]).encode()


HALVES = [{"role": "assistant", "content": TEXT[:20]}, {"content": TEXT[20:]}]
# what comes over the wire, by name; each holds ANSWER
READ: dict[str, Body | bytes] = {
    "plain": message(TEXT),
    "fenced": message(f"```json\n{TEXT}\n```"),
    "fenced, no language": message(f"```\n{TEXT}\n```"),
    "fenced and introduced": message(f"Here you are:\n```JSON\n{TEXT}\n```\nAnything else?"),
    "fenced twice": message(f"```json\n{TEXT}\n```\nAgain:\n```json\n{TEXT}\n```"),
    "fenced code first": message(f"```python\nx = {{1, 2}}\n```\n```json\n{TEXT}\n```"),
    "another fenced object first": message(f'```json\n{{"size": 3}}\n```\n```json\n{TEXT}\n```'),
    "fence never closed": message(f"```json\n{TEXT}"),
    "braces in prose": message(f"With {{verdict}} and {{a, b}} in mind: {TEXT}"),
    "a template in prose": message(f'As {{"verdict": <pass or fail>}} wants it: {TEXT}'),
    "brackets in prose": message(f"As [note 1] and [2] say, in [0, 1): {TEXT} [end]"),
    "prose behind": message(f"{TEXT}\n\nI chose {{pass}} since all holds."),
    "thoughts in tags": message(f"<think>Is it {OTHER}? No.</think>{TEXT}"),
    "twice, other reasons": message(f"{text(reason='a')} {text(reason='b')}"),
    "a faulty draft first": message(f"{text(verdict='perhaps')}\n{TEXT}"),
    "byte order mark": message("\ufeff" + TEXT),
    "reasoning_content alone": message("", reasoning_content=f"Hm. {TEXT}"),
    "reasoning alone": message(None, reasoning=TEXT),
    "both reasonings": message("", reasoning=TEXT, reasoning_content=TEXT),
    "reasoning beside an answer": message(TEXT, reasoning_content=OTHER),
    "whole with length": message(TEXT, "length"),
    "whole and fenced with length": message(f"```json\n{TEXT}\n```", "length"),
    "finish null": message(TEXT, None),
    "finish unknown": message(TEXT, "done"),
    "no finish": {"choices": [{"message": {"content": TEXT}}]},
    "one tool call": message(None, "tool_calls", tool_calls=[call(TEXT)]),
    "one tool call, stop": message("", "stop", tool_calls=[call(TEXT)]),
    "words and a tool call": message("I answer.", "tool_calls", tool_calls=[call(TEXT)]),
    "a tool call with an object": message(None, "tool_calls", tool_calls=[call(ANSWER)]),
    "the same call twice": message(None, "tool_calls", tool_calls=[call(TEXT), call(TEXT)]),
    "function_call": message(None, "function_call", function_call=call(TEXT)["function"]),
    "wrapped in answer": message(json.dumps({"answer": ANSWER})),
    "wrapped in a list": message(json.dumps([ANSWER])),
    "wrapped twice": message(json.dumps({"result": [ANSWER]})),
    "wrapped with a reason": message(json.dumps({"reason": "So.", "answer": ANSWER})),
    "a call in the text": message(json.dumps({"name": "answer", "arguments": ANSWER})),
    "wrapped in a field's name": message(json.dumps({"parts": ANSWER})),
    "wrapped as text": message(json.dumps({"answer": TEXT})),
    "JSON as a JSON text": message(json.dumps(TEXT)),
    "trailing comma": message(TEXT[:-1] + ", }"),
    "trailing comma, fenced": message(f"```json\n{TEXT[:-1]},\n}}\n```"),
    "an enum's other case": message(text(verdict="Pass")),
    "an enum with spaces": message(text(verdict=" PASS ")),
    "a number as text": message(text(amount="5")),
    "content in parts": message(
        [{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}]
    ),
    "a thinking part": message(
        [{"type": "thinking", "text": OTHER}, {"type": "text", "text": TEXT}]
    ),
    "streamed": stream(*HALVES),
    "streamed, no end but DONE": stream(*HALVES, finish=None),
    "streamed, no DONE": stream(*HALVES, done=False),
    "streamed reasoning": stream({"reasoning_content": TEXT}),
    "streamed with comments": b": ping\r\n\r\n" + stream(*HALVES).replace(b"\n", b"\r\n"),
    "a streamed call": stream(
        {"tool_calls": [{"index": 0, **call(TEXT[:5])}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": TEXT[5:]}}]},
        finish="tool_calls",
    ),
}
# and what is refused, with what is said of it
REFUSED: dict[str, tuple[Body | bytes, str]] = {
    "a refusal in words": (message("I'm sorry, I cannot do that."), "read: \"I'm sorry"),
    "a refusal in its field": (message(None, refusal="I will not."), "withheld: 'I will not"),
    "filtered": (message(TEXT, "content_filter"), "withheld"),
    "aborted": (message(TEXT, "abort"), "aborted"),
    "cut": (message(TEXT[:-5], "length"), "cut short: '{"),
    "cut, but told as stop": (message(TEXT[:-5]), "is cut off"),
    "cut in the first key": (message('{"verd'), "is cut off"),
    "cut behind a draft": (message(f"{TEXT} or rather {OTHER[:-9]}"), "is cut off"),
    "cut in its thoughts": (message("", "length", reasoning_content=TEXT), "cut short"),
    "cut in prose": (message(f"Perhaps {TEXT}? But", "length"), "cut short"),
    "two answers": (message(f"{TEXT}\n{OTHER}"), "2 different answers"),
    "two fenced answers": (
        message(f"```json\n{TEXT}\n```\n```json\n{OTHER}\n```"),
        "2 different answers",
    ),
    "two calls": (
        message(None, "tool_calls", tool_calls=[call(TEXT), call(OTHER)]),
        "2 different answers",
    ),
    "text and call differ": (message(OTHER, tool_calls=[call(TEXT)]), "2 different answers"),
    "a list of two": (message(f"[{TEXT}, {OTHER}]"), "2 different answers"),
    "two thoughts": (message("", reasoning=f"{TEXT} {OTHER}"), "2 different answers"),
    "inside of something else": (
        message(json.dumps({"verdict": "perhaps", "draft": ANSWER})),
        "verdict must be one of pass, fail, not 'perhaps'",
    ),
    "a piece of something broken": (message(f'{{"a": {TEXT} "b"}}'), "delimiter"),
    "another word": (message(text(verdict="passed")), "must be one of"),
    "a number with a unit": (message(text(amount="5 EUR")), "amount must be of type number"),
    "a number for a text": (message(text(code=5)), "code must be of type string"),
    "a field lacks": (message('{"verdict": "pass", "code": "5"}'), "amount is missing"),
    "nothing": (message(""), "is empty"),
    "a key twice": (message(f'{TEXT[:-1]}, "code": "6"}}'), "names a key twice"),
    "no number": (message(TEXT.replace("5,", "NaN,")), "NaN is not JSON"),
}


@asynccontextmanager
async def served(answer: Callable[[Body], Body | bytes], **settings: Any) -> AsyncIterator[Client]:
    """A client of a server that answers requests so; a body with an `error` is HTTP 400."""

    async def reply(request: web.Request) -> web.Response:
        said = answer(await request.json())
        if isinstance(said, bytes):
            return web.Response(body=said, content_type="text/event-stream")
        return web.json_response(said, status=400 if "error" in said else 200)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", reply)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        endpoint = Endpoint(model="m", urls=(url,), **{"retry_seconds": 0.0, **settings})
        async with Client([endpoint]) as client:
            yield client
    finally:
        await runner.cleanup()


async def asked(client: Client, **options: Any) -> Any:
    """The fields of an answer, without its reason; one try."""
    questioner = Questioner(client, "m", Account("test"), tries=1)
    question = Question(
        "query_verification", {"turns": "…", "count": "1"}, FORM, dict, stage="verification"
    )
    answer = await questioner.ask(question, lambda number: 7)
    del answer["reason"]
    return answer


@pytest.mark.parametrize("name", READ)
async def test_one_answer_is_read_in_whatever_form_it_stands(name: str) -> None:
    async with served(lambda body: READ[name]) as client:
        assert await asked(client) == ANSWER
        assert client.budget.requests == 1, "and needs no second call"


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_answer_or_two_is_refused_in_words_that_say_so(name: str) -> None:
    said, why = REFUSED[name]
    async with served(lambda body: said, thinking_tokens=1) as client:
        with pytest.raises(Unanswered) as refused:
            await asked(client)
    assert why in refused.value.why


async def test_texts_are_read_as_the_schema_says_inside_of_lists_too() -> None:
    parts = [{"size": "1"}, {"size": "null"}]
    async with served(lambda body: message(text(amount="5.0", parts=parts))) as client:
        assert await asked(client) == PARTS


@pytest.mark.parametrize(
    "said",
    [
        message("<verdict>Pass</verdict><amount>5</amount><code>5</code>{note}"),
        message(TEXT),
        message(None, "tool_calls", tool_calls=[call(TEXT)]),
    ],
)
async def test_a_server_without_schemas_is_read_alike(said: Body) -> None:
    async with served(lambda body: said, structured=False) as client:
        assert ANSWER.items() <= (await asked(client)).items()


def without(*names: str, words: str = "Unsupported parameter: '{}'", **needed: Any) -> Any:
    """A server that takes none of these fields, and wants others; and the bodies that it got."""
    bodies: list[Body] = []

    def answer(body: Body) -> Body | bytes:
        bodies.append(body)
        for name in names:
            if name in body:
                return {"error": {"message": words.format(name), "type": "invalid_request"}}
        for name, what in needed.items():
            if name not in body:
                return {"error": {"message": what}}
        return stream(*HALVES) if body.get("stream") else message(TEXT)

    return answer, bodies


@pytest.mark.parametrize(
    ("refusing", "refusals", "lacks"),
    [
        (without("seed"), 1, {"seed"}),
        (without("temperature", words="Only the default (1) {} is supported."), 1, {"temperature"}),
        (without("temperature", "top_p", "seed"), 3, {"temperature", "top_p", "seed"}),
        (without("seed", words="body.{}: Extra inputs are not permitted"), 1, {"seed"}),
        (
            without("max_tokens", words="'{}' is unknown. Use 'max_completion_tokens' instead."),
            1,
            {"max_tokens"},
        ),
        (without("max_tokens", words="unrecognized request argument: {}"), 1, {"max_tokens"}),
        (without("response_format", words="{} json_schema is not supported"), 1, set()),
        (without(stream="This model can only be streamed; set stream=true."), 1, set()),
    ],
)
async def test_a_field_that_a_server_refuses_is_found_out_once(
    refusing: Any, refusals: int, lacks: set[str]
) -> None:
    answer, bodies = refusing
    async with served(answer) as client:
        for _ in range(3):
            assert await asked(client) == ANSWER
    assert len(bodies) == 3 + refusals
    assert not lacks & bodies[-1].keys()
    assert any("max" in name for name in bodies[-1]), "a limit is never left out"


async def test_a_field_named_in_the_configuration_costs_no_refusal() -> None:
    answer, bodies = without("max_tokens", "seed")
    fields = {"max_tokens": "max_completion_tokens", "seed": ""}
    async with served(answer, fields=fields) as client:
        assert await asked(client) == ANSWER
    assert len(bodies) == 1
    assert "max_completion_tokens" in bodies[0]


async def test_a_limit_refused_for_its_number_is_not_renamed() -> None:
    answer, bodies = without("max_tokens", words="{} is too large: at most 16 can be written")
    async with served(answer, patience_seconds=1.0) as client:
        with pytest.raises(Exception, match="too large"):
            await asked(client)
    assert not any("max_completion_tokens" in body for body in bodies)


@pytest.mark.usefixtures("quick")
async def test_a_server_that_refuses_every_request_is_waited_for_and_no_answer_is_lost() -> None:
    refusing = True

    def answer(body: Body) -> Body:
        return {"error": {"message": "account suspended"}} if refusing else message(TEXT)

    async with served(answer, retry_seconds=60.0) as client:
        work = [asyncio.create_task(asked(client)) for _ in range(3)]
        why = ""
        for _ in range(6000):
            if why := client.status()[0]["why"]:
                break
            await asyncio.sleep(0.01)
        assert "refuses every request: HTTP 400: account suspended" in why
        refusing = False
        assert await asyncio.gather(*work) == [ANSWER] * 3
        assert client.status()[0] | {"why": "", "answered": True} == client.status()[0]


async def test_one_request_that_is_refused_blames_no_other() -> None:
    def answer(body: Body) -> Body:
        long = len(body["messages"]) > 1
        return {"error": {"message": "I take one message"}} if long else message(TEXT)

    async with served(answer) as client:
        for _ in range(3):
            with pytest.raises(RequestRefused, match="one message"):
                await asked(client)
        assert not client.status()[0]["why"]


async def test_who_gives_up_is_told_at_once() -> None:
    refusal = {"error": {"message": "account suspended"}}
    async with served(lambda body: refusal, patience_seconds=900.0) as client:
        with pytest.raises(RequestRefused, match="account suspended"):
            await asked(client)
