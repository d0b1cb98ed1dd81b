"""What a question sends, and a client whose questions a stand-in answers."""

from __future__ import annotations

import random
from typing import Any

from rods.asking import Question
from rods.config import Endpoint
from rods.daemon.stand_ins import NAME
from rods.daemon.stand_ins.model import StandIn
from rods.llm import Client, Completion, Request
from rods.prompts import load


def messages(question: Question[Any], *, constrained: bool) -> list[dict[str, str]]:
    """What is sent of a role's question: for an answer held to a schema, or for one in tags."""
    fields = {**({"problem": ""} if question.mend else {}), **question.fields}
    rendered = load(question.template).render_sections(**fields)
    parts = ("user", *question.sections, "constrained" if constrained else "tagged")
    asked = "\n\n".join(rendered[part] for part in parts)
    return [{"role": "system", "content": rendered["system"]}, {"role": "user", "content": asked}]


class StandInClient(Client):
    """Asks `model` what would be sent to `endpoint`, and keeps each question, once, in
    `questions`."""

    def __init__(self, model: StandIn, endpoint: Endpoint) -> None:
        super().__init__([endpoint])
        self.model = model
        self.questions = list[Request]()

    def draw(self, chance: random.Random) -> str:
        return ""

    def constrains(self, backbone: str) -> bool:
        return self.settings[0].structured

    def thinking_tokens(self, backbone: str) -> int:
        return self.settings[0].thinking_tokens

    async def complete(self, request: Request) -> Completion:
        if all(request.messages != known.messages for known in self.questions):
            self.questions.append(request)
        body: dict[str, Any] = {"messages": list(request.messages), "seed": request.random_seed}
        if request.schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"schema": request.schema},
            }
        return Completion(
            self.model.answer(body), "stop", NAME, "", constrained=request.schema is not None
        )
