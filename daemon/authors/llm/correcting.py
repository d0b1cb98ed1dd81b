"""The two agents of corrective feedback (000 Appendix C): a generator that writes what a tool should answer, and a
judge that gives four verdicts. Whether a text is approved follows from these four, whatever the judge says itself.

An answer that cannot be read is one attempt gone: neither is asked the same twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daemon.authors.llm import showing
from daemon.authors.llm.asking import Asker, Keyed
from prompts import load
from rods.answers import AnswerForm, Schema
from rods.environments.base import Environment, Tool
from rods.gates.feedback import LONGEST, VERDICTS, failing
from rods.gates.probe import Remedy
from rods.rules.mining import MinedFailure

CATEGORIES = (
    "dependency_missing",
    "parameter_constraint",
    "state_prerequisite",
    "format_mismatch",
    "resource_unavailable",
)
TYPES = ("clarify_constraint", "suggest_prerequisite", "explain_dependency", "correct_format")
REMEDIES = ("look_up", "first", "argument", "none")
NAME: Schema = {"type": "string", "maxLength": 80}
OTHERS = 60  # tools of the class that are shown
BOOLEAN: Schema = {"type": "boolean"}
PROPOSAL = AnswerForm(
    {
        "needed": {"type": "string", "enum": ["yes", "no"]},
        "category": {"type": "string", "enum": list(CATEGORIES)},
        "type": {"type": "string", "enum": list(TYPES)},
        "feedback": {"type": "string", "maxLength": LONGEST},
        "remedy": {"type": "string", "enum": list(REMEDIES)},
        "tool": NAME,
        "argument": NAME,
        "shape": NAME,
    },
    guiding=frozenset({"feedback"}),
)
OPINION = AnswerForm(
    {**dict.fromkeys((*VERDICTS, "approved"), BOOLEAN), "suggestion": {"type": "string", "maxLength": LONGEST}},
    optional=frozenset({"suggestion"}),
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the generator wrote. `needed`: whether the refusal should say more at all; `remedy` is None where it names
    none."""

    needed: bool
    category: str
    type: str
    text: str
    remedy: Remedy | None


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the judge found: its four verdicts, why, and whether it said itself what follows from them."""

    verdicts: Mapping[str, bool]
    reason: str
    consistent: bool

    @property
    def failed(self) -> tuple[str, ...]:
        """The verdicts that stand against the text."""
        return failing(self.verdicts)


async def propose(
    asker: Asker, given: Keyed, environment: Environment, tool: Tool, mined: MinedFailure, objection: str
) -> Proposal:
    """Raises ComposeError for an answer that cannot be read, EndpointError, BudgetSpent."""

    def read(answer: dict[str, Any]) -> Proposal:
        kind = answer["remedy"]
        parts = {name: answer[name].strip().strip("`'\"") for name in ("tool", "argument", "shape")}
        remedy = None if kind == "none" else Remedy(kind, **parts)
        text = " ".join(answer["feedback"].split())
        return Proposal(answer["needed"] == "yes", answer["category"], answer["type"], text, remedy)

    return await asker.ask(
        given,
        "feedback",
        stage="feedback",
        fields={
            **_about(environment, tool, mined.pattern),
            "often": f"in {mined.rollouts} attempts at {len(mined.tasks)} tasks or more",
            "shapes": "\n".join(showing.compact(one) for one in mined.shapes) or "(none)",
            "examples": _examples(asker, tool.group),
            "objection": objection,
        },
        form=PROPOSAL,
        read=read,
        error="query_gen_failed",
    )


async def judge(
    asker: Asker, given: Keyed, environment: Environment, tool: Tool, pattern: str, text: str, remedy: Remedy
) -> Opinion:
    """Raises ComposeError for an answer that cannot be read, EndpointError, BudgetSpent."""

    def read(answer: dict[str, Any]) -> Opinion:
        verdicts = {name: answer[name] for name in VERDICTS}
        why = answer.get("suggestion", "").strip() or answer["reason"].strip()
        return Opinion(verdicts, why, answer["approved"] is not bool(failing(verdicts)))

    return await asker.ask(
        given,
        "feedback_judge",
        stage="feedback_judge",
        fields={**_about(environment, tool, pattern), "feedback": text, "remedy": _in_words(tool, remedy)},
        form=OPINION,
        read=read,
        error="query_verify_no_tag",
    )


def _about(environment: Environment, tool: Tool, pattern: str) -> Mapping[str, str]:
    others = [one for one in environment.tools().values() if one.group == tool.group and one.name != tool.name]
    return {
        "tool": showing.schemas([tool]),
        "others": showing.signatures(others[:OTHERS]) or "(none)",
        "pattern": pattern,
    }


def _examples(asker: Asker, group: str) -> str:
    """Three to five examples for tools of this class; general ones where the class has none."""
    for name in (f"feedback_class_{group}", "feedback_class_any"):
        try:
            load(name)
        except (FileNotFoundError, ValueError, OSError):
            continue
        return asker.template(name).text
    raise FileNotFoundError("prompts/feedback_class_any.txt")


def _in_words(tool: Tool, remedy: Remedy) -> str:
    if remedy.kind == "look_up":
        return f"take {remedy.argument} of {tool.name} from what {remedy.tool} returns"
    if remedy.kind == "first":
        return f"call {remedy.tool} before {tool.name}"
    return f"give {remedy.argument} of {tool.name} in the form {remedy.shape}"
