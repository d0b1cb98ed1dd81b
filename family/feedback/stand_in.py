"""The roles of models that write corrective feedback (000, docs/feedback.md), played by rule: what
a refusal should say, and whether that may be shown."""

import json
import re

from rods.daemon.stand_ins.roles import SIGNATURE, Answer, Asked, Role
from rods.family.feedback.gates import VERDICTS

# a refusal of a value
ABSENT = re.compile(r"\bno\b|not found|invalid|unknown|does not exist", re.IGNORECASE)
LOOKS = re.compile(r"(?:find|search|list|get|view|look)")  # names of tools that look something up


def feedback(asked: Asked) -> Answer:
    """The remedy that fits the words of the refusal, and a sentence about it, one of a few."""
    failing = json.loads(asked.fields["tool"])
    others = [name for name, _ in SIGNATURE.findall(asked.fields["others"])]
    unknown = ABSENT.search(asked.fields["pattern"]) is not None
    remedies: list[Answer] = []
    for name in sorted(others, key=lambda name: not LOOKS.match(name)):
        if unknown and LOOKS.match(name):
            for argument in failing["arguments"]:
                text = (
                    f"The {argument} is not known by this name. It may have to be looked up, as "
                    f"{name} does."
                )
                remedies.append(
                    {"remedy": "look_up", "tool": name, "argument": argument, "feedback": text}
                )
        elif not unknown:
            text = (
                f"The state is not what this tool needs. Something may have to be done before, "
                f"perhaps {name}."
            )
            remedies.append({"remedy": "first", "tool": name, "argument": "", "feedback": text})
    empty = {"remedy": "none", "tool": "", "argument": "", "feedback": ""}
    chosen = asked.chance.choice(remedies[:4]) if remedies else empty
    category = "state_prerequisite"
    kind = "suggest_prerequisite"
    if unknown:
        category = "dependency_missing"
        kind = "explain_dependency"
    needed = "yes" if remedies else "no"
    return {"needed": needed, "category": category, "type": kind, "shape": "", **chosen}


def judge_feedback(asked: Asked) -> Answer:
    return {**VERDICTS, "approved": True, "suggestion": ""}


ROLES: dict[str, Role] = {"feedback": feedback, "feedback_judge": judge_feedback}
