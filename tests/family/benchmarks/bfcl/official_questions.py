"""BFCL's own harness at questions that are answered in words, with a scripted policy; and ours at
the same."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rods.dialects.remote import reply_text
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply
from rods.family.benchmarks.bfcl.scorer import Scorer
from rods.family.benchmarks.episodes import EndpointReplies, messages, request_tools
from rods.family.benchmarks.folder import Episode, Form
from rods.functions import named_function

TARGET = "tests.family.benchmarks.bfcl.official_questions:play"


def play(request: dict[str, Any]) -> dict[str, Any]:
    """{"wheel", "category", "form", "questions", "player", "modules", "told"} → by id: the messages
    of every request, and the result. `questions`: how many; `player`, `modules`: functions, of a
    request to a reply, and of what is `told` to the modules that stand in for those that the
    harness imports."""
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        sys.modules.update(named_function(request["modules"], where="modules")(request["told"]))
        answer = named_function(request["player"], where="player")
        scorer = Scorer(request["wheel"])
        handler = scorer.handlers[request["form"]]
        native = request["form"] == "native"
        asked: list[Any] = []

        def query(data: dict[str, Any]) -> tuple[Any, float]:
            body = {"messages": copy.deepcopy(data["message"])} | (
                {"tools": data["tools"]} if native else {}
            )
            asked.append(copy.deepcopy(body["messages"]))
            return answer(body), 0.0

        def parsed(reply: Any) -> dict[str, Any]:
            text = reply
            ids = []
            message: dict[str, Any] = {"role": "assistant", "content": reply}
            if isinstance(reply, dict):
                functions = [one["function"] for one in reply["tool_calls"]]
                text = [{one["name"]: one["arguments"]} for one in functions]
                ids = ["x"] * len(functions)
                message = {"role": "assistant", **reply}
            return {
                "model_responses": text,
                "model_responses_message_for_chat_history": message,
                "tool_call_ids": ids,
                "input_token": 0,
                "output_token": 0,
            }

        handler._query_FC = handler._query_prompting = query
        handler._parse_query_response_FC = handler._parse_query_response_prompting = parsed
        entries = scorer.utils.load_dataset_entry(request["category"])
        entries = [
            entry for entry in entries if entry.get("scenario") == request["told"].get("scenario")
        ]
        questions = [entry for entry in entries if "prereq" not in entry["id"]][
            : request["questions"]
        ]
        entries = [entry for entry in entries if "prereq" in entry["id"]] + questions
        if "memory" in request["category"]:
            scorer.utils.populate_initial_settings_for_memory_test_cases(entries, Path(folder))
        else:
            scorer.utils.populate_initial_settings_for_web_search_test_cases(entries)
        found = {}
        for entry in entries:
            asked.clear()
            result, _ = handler.inference(entry, True, True)
            found[entry["id"]] = json.loads(json.dumps({"asked": asked, "result": result}))
        return found


class Played(EndpointReplies):
    """A player's replies to ours, and what it was asked, by item."""

    def __init__(
        self, player: Callable[[dict[str, Any]], Any], asked: dict[str, list[Any]], job: Job, _: int
    ) -> None:
        self.job = job
        self._player = player
        self._asked = asked.setdefault(job.task.provenance["id"], [])

    async def reply(self, need: NeedText) -> Reply:
        dialect: Any = self.job.dialect
        native = dialect.form == "native"
        shown = messages(need.messages) if native else [dict(message) for message in need.messages]
        self._asked.append(json.loads(json.dumps(shown)))
        body = {"messages": shown} | ({"tools": request_tools(need.messages)} if native else {})
        made = self._player(body)
        if not native:
            return Reply(made)
        if isinstance(made, str):
            return Reply(reply_text(made, []))
        functions = [one["function"] for one in made["tool_calls"]]
        return Reply(reply_text(None, [(one["name"], one["arguments"]) for one in functions]))


def official(
    wheel: Path, category: str, form: Form, questions: int, where: str, **told: Any
) -> dict[str, Any]:
    """What the harness makes of them, in a process of its own; `where`: the module of `answer` and
    `modules`."""
    worker = Worker(WorkerSpec(TARGET, seconds=120.0, memory=1 << 33, reply_bytes=1 << 28))
    request = {
        "wheel": str(wheel),
        "category": category,
        "form": form,
        "questions": questions,
        "told": told,
    }
    try:
        made: dict[str, Any] = worker.call(
            {**request, "player": f"{where}:answer", "modules": f"{where}:modules"}
        )
        return made
    finally:
        worker.close()


def alike(
    benchmark: Any, theirs: Mapping[str, Any], asked: Mapping[str, Any], done: Iterable[Episode]
) -> int:
    """Asserts that requests and results are the same; how many items there are."""
    done = list(done)
    for episode in done:
        ours = asked[episode.task]
        official = theirs[episode.task]
        shown, due = (
            [[_plain(one) for one in request] for request in one]
            for one in (ours, official["asked"])
        )
        assert shown == due
        assert json.loads(json.dumps(benchmark.written(episode))) == official["result"]
    return len(done)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the ids that tie results to calls."""
    calls = [one["function"] for one in message.get("tool_calls", ())]
    return {"role": message["role"], "content": message["content"], "calls": calls}
