"""A stub that plays every role well enough for whole variants to pass: `Script(answer="tests.llm_stub.roles:answer")`.

A question is read back into its template and fields, and answered by rule, with recipes and phrase books of the
procedural author underneath. Chance hangs on the request alone, so the same question has the same answer. Nothing is
shared with the code that asks but the templates and the way in which it shows calls.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.llm_stub.roles import adversarial, judging, planning, wording
from tests.llm_stub.roles.reading import Asked, read, written

Role = Callable[[Asked, random.Random], dict[str, Any]]
ROLES: dict[str, Role] = {**planning.ROLES, **wording.ROLES, **judging.ROLES, **adversarial.ROLES}


def answer(request: dict[str, Any]) -> str:
    """The text of the answer to a chat request. Raises KeyError for a template that no role knows: a new one needs a
    role here."""
    asked = read(request)
    if asked is None:
        return "I can only play the parts that I know."
    chance = random.Random(json.dumps(request, sort_keys=True))
    return written(ROLES[asked.template](asked, chance), constrained=asked.schema is not None)
