"""JSON's edges, where models live: what cannot be written, what must not be rounded, what is not an
answer."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rods.llm import Completion, Request, wire
from rods.llm.wire import NotAnAnswer

SENT = Completion("", "other", "asked", "backbone", tokens_in=10)
HALF = "\ud83d"  # half of a surrogate pair


def body(**fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        wire.encode(Request("test", **fields), "m", {}, constrained=True)
    )
    return found


def test_lone_surrogates_are_replaced_on_the_way_out() -> None:
    assert (
        body(messages=[{"role": "user", "content": f"a{HALF}b ☃"}])["messages"][0]["content"]
        == "a�b ☃"
    )
    assert (
        body(messages=[{"role": "user", "content": "\ud83d\ude00"}])["messages"][0]["content"]
        == "😀"
    )


def test_large_integers_in_a_schema_arrive_exactly() -> None:
    schema = {"type": "object", "properties": {"id": {"enum": [2**70, 5]}}}
    assert body(schema=schema)["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_schema_that_json_cannot_say_is_refused_not_turned_into_null(number: float) -> None:
    with pytest.raises(ValueError, match="JSON cannot say it"):
        body(schema={"properties": {"x": {"enum": [1.0, [number]]}}})


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"null",
        b"[]",
        b"<html>",
        b'{"choices": null}',
        b'{"choices": {}}',
        b'{"choices": [',
        b"\xff\xfe",
        b"[" * 9999,
    ],
)
def test_what_is_no_completion_is_said_to_be_none(reply: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        wire.decode(reply, SENT, 0.1)


@pytest.mark.parametrize(
    "choice",
    [
        None,
        7,
        {},
        {"message": None},
        {"message": []},
        {"message": {"content": 5}},
        {"message": {"content": ""}, "finish_reason": "tool_calls"},
        {"message": {"content": None}, "finish_reason": "stop"},
        {"message": {"content": None, "reasoning_content": "Hm."}, "finish_reason": "stop"},
        {"message": {"content": []}, "finish_reason": "stop"},
        {"text": None, "finish_reason": "stop"},
        {"message": {"content": [{"type": "image"}, 3]}, "finish_reason": ["stop"]},
        {"message": {"content": None, "tool_calls": [None, {"function": {"name": 3}}]}},
    ],
)
def test_a_choice_of_any_shape_without_text_is_an_empty_answer(choice: Any) -> None:
    found = wire.decode(
        json.dumps({"choices": [choice], "model": 3, "usage": [1]}).encode(), SENT, 0.1
    )
    assert (found.text, found.finish, found.model, found.tool_calls) == ("", "empty", "asked", ())


def finish(choice: Any) -> str:
    return wire.decode(json.dumps({"choices": [choice]}).encode(), SENT, 0.1).finish


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("abort", "aborted"),
        ("cancelled", "aborted"),
        ("error", "aborted"),
        ("insufficient_system_resource", "aborted"),
        ("content_filter", "filtered"),
        ("SAFETY", "filtered"),
        ("a word that nobody knows", "other"),
        (None, "other"),
        (7, "other"),
    ],
)
def test_the_word_for_an_end_is_believed_over_half_a_text_and_whole_calls(
    reason: Any, name: str
) -> None:
    call = {"function": {"name": "look", "arguments": "{}"}}
    assert finish({"message": {"content": "half"}, "finish_reason": reason}) == name
    assert finish({"text": "half", "finish_reason": reason}) == name
    native = finish({"message": {"content": None, "tool_calls": [call]}, "finish_reason": reason})
    assert native == ("tools" if name == "stop" else name)


def test_a_model_may_say_nothing_and_only_then_is_an_empty_text_an_answer() -> None:
    for silent in ({"message": {"content": ""}}, {"text": ""}):
        assert finish({**silent, "finish_reason": "stop"}) == "stop"
        assert finish({**silent, "finish_reason": "abort"}) == "aborted"
        assert finish({**silent, "finish_reason": "length"}) == "length"
    said = {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}
    assert not wire.decode(json.dumps(said).encode(), SENT, 0.1).whole


def test_native_tool_calls_and_token_ids_are_read() -> None:
    call = {"function": {"name": "look", "arguments": '{"at": "box"}'}}
    choice = {
        "message": {"content": None, "tool_calls": [call]},
        "finish_reason": "stop",
        "token_ids": [5, 6],
        "prompt_token_ids": [1],
    }
    found = wire.decode(json.dumps({"choices": [choice]}).encode(), SENT, 0.1)
    assert (found.finish, found.whole) == ("tools", True)
    assert [(one.name, one.arguments) for one in found.tool_calls] == [("look", '{"at": "box"}')]
    assert found.token_ids == (5, 6)


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "no such model", "code": 404}},
        {"message": "no such model"},
        {"detail": "no such model"},
        {"error": "no such model"},
    ],
)
def test_a_complaint_is_found_in_every_form(said: Any) -> None:
    assert wire.complaint(json.dumps(said).encode()) == "no such model"
    assert wire.complaint(b"<h1>Bad\n Gateway</h1>") == "<h1>Bad Gateway</h1>"


@pytest.mark.parametrize(
    "error",
    [
        # vLLM
        {
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "9000"
        },
        {
            "message": "request (4390 tokens) exceeds the available context size (4096 tokens), "
            "try increasing it"
        },
        # SGLang
        {
            "message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 "
            "tokens)."
        },
        {"message": "zu lang", "type": "exceed_context_size_error", "code": 400},  # llama.cpp
        # OpenAI
        {
            "message": "too many words",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
    ],
)
def test_a_prompt_that_does_not_fit_is_known_by_the_words_or_the_kind_of_the_error(
    error: Any,
) -> None:
    assert wire.no_room(json.dumps({"error": error}).encode())
    assert wire.no_room(json.dumps(error).encode())


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"[]",
        b'{"error": {"message": "the name of a tool exceeds the maximum allowed length", "type": '
        b'null, "code": 400}}',
        b'{"error": {"message": "schema not supported", "type": "invalid_request_error"}}',
        b'{"error": "no such model", "type": ["context_length"]}',
    ],
)
def test_another_refusal_is_not_taken_for_a_prompt_that_does_not_fit(reply: bytes) -> None:
    assert not wire.no_room(reply)


def test_texts_are_sent_as_they_are_and_their_embeddings_read() -> None:
    assert body(texts=[f"a{HALF}", "b"]) == {"model": "m", "input": ["a�", "b"]}
    assert wire.path(Request("test", texts=["a"])) == "/embeddings"
    reply = {
        "data": [{"embedding": [1, 0.5]}, {"embedding": [0, 2]}],
        "usage": {"prompt_tokens": 7},
    }
    found = wire.decode_embeddings(json.dumps(reply).encode(), SENT, 2, 0.1)
    assert (found.embeddings, found.tokens_in, found.finish) == (
        ((1.0, 0.5), (0.0, 2.0)),
        7,
        "stop",
    )


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        [{"embedding": [1.0]}],
        [{"embedding": []}] * 2,
        [{"embedding": ["1"]}] * 2,
        [{}, {}],
        [[1.0]] * 2,
    ],
)
def test_a_reply_without_an_embedding_for_each_text_is_no_answer(data: Any) -> None:
    with pytest.raises(NotAnAnswer, match="an embedding for each text"):
        wire.decode_embeddings(json.dumps({"data": data}).encode(), SENT, 2, 0.1)


def test_an_embedding_of_numbers_that_are_none_is_no_answer() -> None:
    with pytest.raises(NotAnAnswer):
        wire.decode_embeddings(b'{"data": [{"embedding": [NaN, 1.0]}]}', SENT, 1, 0.1)


@pytest.mark.parametrize(
    ("sent", "logprobs"),
    [
        ("-0.5, -0.25", (-0.5, -0.25)),
        ("-0.5, NaN", ()),
        ("-0.5, -Infinity", ()),
        ("-0.5, null", ()),
    ],
)
def test_log_probabilities_are_finite_or_none_are_there(
    sent: str, logprobs: tuple[float, ...]
) -> None:
    reply = f'{{"choices": [{{"text": "a", "logprobs": {{"token_logprobs": [{sent}]}}}}]}}'
    assert wire.decode(reply.encode(), SENT, 0.0).logprobs == logprobs
