"""`--protocol native`: a policy in its model's own format, behind a server that writes tools and
reads calls, or as local weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from bench.fixtures import chat_templates
from rods import dialects
from rods.buffers.checkpoints import UNSTARTED, Checkpoints
from rods.buffers.run.creation import create_run
from rods.calls import Call
from rods.config import PolicySettings, parse_config
from rods.dialects.native import family_in
from rods.dialects.remote import Served, reply_text
from rods.evaluation.card import template_hash, template_of
from rods.family.benchmarks.folder import episodes
from rods.family.benchmarks.main import run
from rods.tasks import Task, task_lines
from rods.trainer.chat import Chat
from rods.worlds import desk
from tests.environments import load
from tests.family.benchmarks.test_tasks import reported
from tests.json_server import json_server
from tests.trainer.nano_parts import saved, tasks

SINGLE = "This model only supports single tool-calls at once!"


class Server:
    """Answers with the ground truth's calls of a turn, all in one message. `single`: refuses a
    history with two calls in a message; `broken`: and every other history, too; `sends`: what it
    sends beside the content; `names`: whether its calls have ids."""

    def __init__(
        self,
        known: Sequence[Task],
        *,
        single: bool = False,
        broken: bool = False,
        sends: dict[str, str] | None = None,
        names: bool = True,
    ) -> None:
        self.known = known
        self.single = single
        self.broken = broken
        self.sends = sends or {}
        self.names = names
        self.bodies: list[Any] = []
        self.refused = 0

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 404, {"error": "no such address"}
        messages = body["messages"]
        made = [len(message.get("tool_calls", ())) for message in messages]
        if (self.single and max(made) > 1) or (self.broken and any(made)):
            self.refused += 1
            return 400, {"error": {"message": SINGLE, "type": "BadRequestError", "code": 400}}
        self.bodies.append(body)
        said = [message["content"] for message in messages if message["role"] == "user"]
        task = next(task for task in self.known if task.script[0] == said[0])
        last = messages[-1]
        calls = task.calls[len(said) - 1] if last["role"] == "user" else ()
        message: dict[str, Any] = {"content": None if calls else "Done.", **self.sends}
        if calls:
            message["tool_calls"] = [
                {
                    **({"id": f"chatcmpl-{len(messages)}-{place}"} if self.names else {}),
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": json.dumps(dict(call.arguments), indent=1),
                    },
                }
                for place, call in enumerate(calls)
            ]
        end = "tool_calls" if calls else "stop"
        return 200, {"choices": [{"message": message, "finish_reason": end}]}


@contextmanager
def serving(server: Server) -> Iterator[str]:
    with json_server(server.answer) as url:
        yield url


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Tasks of all types, some with several calls a turn, and with different first texts."""
    monkeypatch.chdir(tmp_path)
    made = {task.script[0]: task for task in desk.generate(5, 12, 0)}
    Path("tasks.jsonl").write_bytes(task_lines(made.values()))
    assert any(len(calls) > 1 for task in made.values() for calls in task.calls)
    assert any(task.later_tools for task in made.values())
    return [*made.values()]


def play(folder: str, url: str, *more: str) -> int:
    told = ("--model", "m", "--patience", "1", "--in-flight", "1", "--protocol", "native")
    return run(["run", folder, "--tasks", "tasks.jsonl", "--url", url, *told, *more])


def test_tools_stand_beside_and_what_a_server_sent_goes_back_as_it_came(
    known: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(known, sends={"reasoning_content": "First I look.\n"})
    kwargs = {"enable_thinking": True}
    with serving(server) as url:
        assert play("e", url, "--chat-template-kwargs", json.dumps(kwargs)) == 0
    found = reported(capsys, "report", "e")
    assert found["scores"]["all"]["all"]["solved"]["mean"] == 1.0
    assert found["settings"]["policy"]["extra"] == {"chat_template_kwargs": kwargs}
    assert found["card"]["history"] == "parts"
    tools = load("desk").tools()
    for body in server.bodies:
        assert body["chat_template_kwargs"] == kwargs
        said = [message["content"] for message in body["messages"] if message["role"] == "user"]
        task = next(task for task in known if task.script[0] == said[0])
        # those of the beginning, also when others have come back
        assert body["tools"] == [
            {"type": "function", "function": tools[name].schema()} for name in task.tools_at(0)
        ]
        for turn, names in task.later_tools.items():
            if turn < len(said):
                assert json.dumps(tools[names[0]].schema(), ensure_ascii=False) in said[turn]
        for place, message in enumerate(body["messages"]):
            if message["role"] == "assistant":
                assert message["reasoning_content"] == "First I look.\n"
                calls = message.get("tool_calls", [])
                results = body["messages"][place + 1 : place + 1 + len(calls)]
                ids = [f"chatcmpl-{place}-{number}" for number in range(len(calls))]
                assert [call["id"] for call in calls] == ids
                assert [result["tool_call_id"] for result in results] == ids
                assert all("{\n " in call["function"]["arguments"] for call in calls)
    # an episode only goes on: what was sent before is sent again
    for earlier, later in pairwise(server.bodies):
        if len(later["messages"]) > len(earlier["messages"]):
            assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
    assert play("e", "http://127.0.0.1:9/v1") == 3
    assert "policy is" in capsys.readouterr().err


def test_calls_without_an_id_get_one_of_nine_characters(known: list[Task]) -> None:
    server = Server(known, sends={"reasoning": "Hm."}, names=False)
    with serving(server) as url:
        assert play("e", url) == 0
    for body in server.bodies:
        replies = [message for message in body["messages"] if message["role"] == "assistant"]
        ids = [call["id"] for reply in replies for call in reply.get("tool_calls", ())]
        assert all(len(name) == 9 and name.isalnum() for name in ids)
        assert len({*ids}) == len(ids)
        assert all(reply["reasoning"] == "Hm." for reply in replies)


def test_where_a_template_takes_one_call_a_message_a_second_one_is_the_policy_s(
    known: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(known, single=True, sends={"reasoning": "Hm."})
    with serving(server) as url:
        assert play("e", url) == 0
    assert server.refused == 1  # and asked no more
    found = reported(capsys, "report", "e")
    assert found["complete"] and found["scores"]["all"]["all"]["solved"]["mean"] == 1.0
    plain = Server(known, sends={"reasoning": "Hm."})
    with serving(plain) as url:
        assert play("p", url) == 0
    assert _episodes("e") == _episodes("p")
    apart = [body["messages"] for body in server.bodies if len(body["messages"]) > 4]
    assert any(
        [message["role"] for message in messages[1:5]] == ["assistant", "tool"] * 2
        and "reasoning" not in messages[3]
        for messages in apart
    )


def test_a_server_that_refuses_every_history_is_not_believed(
    known: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(known, broken=True)
    with serving(server) as url:
        assert play("e", url) == 5
    assert "refused a request: HTTP 400" in capsys.readouterr().err
    assert not any(episode.end == "infrastructure" for episode in episodes(Path("e")))


@pytest.mark.parametrize("family", ["qwen", "llama3", "mistral"])
def test_a_served_teacher_is_imitated_in_the_form_of_the_policy_that_learns(
    known: list[Task], family: str
) -> None:
    sft = pytest.importorskip("rods.family.supervised.sft")
    with serving(Server(known)) as url:
        assert play("e", url) == 0
    dialect = dialects.load("native", family=family)
    traces = sft.taught(Path("e"), known, dialect)
    assert len(traces) == len(known)
    for trace in traces:
        replies = [message.content for message in trace.messages if message.role == "assistant"]
        calls = [step.calls for turn in trace.turns for step in turn.steps]
        assert [dialect.parse(reply, load("desk").tools()).calls for reply in replies] == calls
        assert {dialect.parse(reply).answer for reply in replies} == {None, "Done."}
        assert trace.messages[0].tools


def _episodes(folder: str) -> list[Any]:
    return [(episode.task, episode.result["rollout"]) for episode in episodes(Path(folder))]


def test_a_reply_is_read_by_its_parts() -> None:
    dialect = Served()
    calls = (Call("look", {"at": "a \n<b>", "deep": {"n": [1, None]}}), Call("wait"))
    assert dialect.parse(dialect.write(calls)).calls == calls
    assert dialect.parse(dialect.answer("Done.")).answer == "Done."
    assert dialect.parse(reply_text(None, [("wait", "")])).calls == (Call("wait"),)
    assert dialect.parse(reply_text(None)).answer == ""
    # one that cannot be read makes all of them void
    for arguments in ("{", "[]", "3", '{"a": 1, "a": 2}'):
        parsed = dialect.parse(reply_text("so", [("wait", "{}"), ("look", arguments)]))
        assert (parsed.error, parsed.in_call) == ("the arguments of look are no JSON object", True)


@pytest.mark.parametrize("text", ["{", "3", '["a"]'])
def test_variables_of_a_template_are_a_json_object(
    known: list[Task], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert play("e", "http://127.0.0.1:9/v1", "--chat-template-kwargs", text) == 2
    assert "--chat-template-kwargs: is no JSON object" in capsys.readouterr().err


@pytest.mark.parametrize(
    "template", [pytest.param("qwen3", marks=pytest.mark.slow), pytest.param("", id="no tools")]
)
def test_weights_and_a_run_s_policy_play_by_their_own_chat_template(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    template: str,
) -> None:
    folder = tmp_path / "model"
    model = chat_templates.saved(folder, template) if template else saved(folder)
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(task_lines(tasks()[:2]))
    used: list[tuple[Path, PolicySettings | None]] = []

    def seen(folder: Path, policy: PolicySettings | None = None) -> Chat:
        used.append((folder, policy))
        return whole(folder, policy)

    whole = Chat.load
    monkeypatch.setattr(Chat, "load", seen)
    limits = ["--tasks", str(file), "--max-tokens", "8", "--max-context", "600"]
    own = {"kind": "transformers", "model": str(model), "chat_template_kwargs": {"mood": "plain"}}
    create_run(
        tmp_path / "run",
        parse_config({"policy": own, "training": {"batch_tasks": 2}}, where="t"),
        tasks(),
    )
    Checkpoints(tmp_path / "run").write(
        UNSTARTED, lambda folder: copytree(model, folder, dirs_exist_ok=True)
    )
    trained = reported(capsys, "run", str(tmp_path / "r"), "--run", str(tmp_path / "run"), *limits)
    assert trained["settings"]["protocol"] == "native" and trained["complete"]
    policy = trained["settings"]["policy"]
    assert policy["chat_template_kwargs"] == {"mood": "plain"}
    assert trained["card"]["history"] == "tokens"
    (first, *_), *_ = [episode.result["trace"]["messages"] for episode in episodes(tmp_path / "r")]
    assert bool(first.get("tools")) == bool(template) == ("<tools>" not in first["content"])
    weights = ["--weights", str(model), "--protocol", "native"]
    weights += ["--chat-template-kwargs", '{"mood": "plain"}']
    found = reported(capsys, "run", str(tmp_path / "e"), *weights, *limits)
    assert found["settings"]["policy"]["chat_template_kwargs"] == {"mood": "plain"}
    assert found["card"] == trained["card"]
    used_template = whole(model, used[0][1]).tokenizer.chat_template
    assert found["card"]["template"] == template_hash(used_template)
    assert (found["card"]["template"] == template_of(model)) == (not template)  # TRL's for training
    assert [folder for folder, _ in used] == [Path(policy["path"]), model]
    for folder, settings in used:
        assert settings is not None
        assert (settings.dialect, settings.chat_template_kwargs) == ("native", {"mood": "plain"})
        assert Path(settings.model) == folder.resolve()
        assert (family_in(settings.model, settings.family) is not None) == bool(template)


def test_lone_surrogates_in_a_native_call_raise_nothing() -> None:
    text = reply_text("a\ud800", [("lo\udcffok", '{"k": "\\ud800"}', "id\ud800")], {"r": "\ud800"})
    assert Served().parse(text).error
    text = reply_text("a\ud800", [("look", '{"k": "\ud800"}', "id")])
    assert Served().parse(text).calls == (Call("look", {"k": "�"}),)
