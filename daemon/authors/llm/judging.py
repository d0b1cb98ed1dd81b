"""Stage IV, gate 4: a model judges by the paper's five criteria, and says where the root of a fault lies (004
Appendices C.4, C.5 and G). Asked again after stage V.

Rules go first and cost no call: a task whose form is not its type's is `gt_unfixable`; a text that names functions or
shows how it was made is `query_fixable`. In the joint form (`pipeline.calls = "batched"`) one answer holds verdict,
class and turn; in the paper's form a rejected sample is diagnosed by a call of its own.
"""

from __future__ import annotations

from typing import Any, Literal

from daemon.authors.base import Assignment, Fault, Judgement
from daemon.authors.llm import showing, spoken
from daemon.authors.llm.answers import REASON, Form, Schema, Unreadable
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.rewriting import functions
from prompts import load
from rods.composing.records import Draft
from rods.config.identity import Pipeline
from rods.environments.base import Results
from rods.gates import drafts
from rods.tasks import RETURN_SENTENCE, Task

CRITERIA = ("alignment", "consistency", "coherence", "naturalness", "structure")
STATE_ROOM = 3_000  # characters of the world that a judge is shown
VERDICT: Schema = {"type": "string", "enum": ["pass", "fail"]}
ISSUE: Schema = {"type": "string", "maxLength": REASON}  # lengths in common are compiled once


class Judge:
    """`compute` runs what takes a moment in a thread."""

    def __init__(self, asker: Asker, settings: Pipeline, compute: Compute) -> None:
        self.asker, self.settings, self.compute = asker, settings, compute

    async def judge(self, given: Assignment, draft: Draft, task: Task, results: Results | None = None) -> Judgement:
        if faults := await self.compute(lambda: self._rules(given, draft, task)):
            return Judgement("; ".join(fault.reason for fault in faults), faults)
        joint = self.settings.calls == "batched"
        reason, issue, fault = await self._verdict(given, draft, task, joint=joint)
        if not issue:
            return Judgement(reason)
        if fault is None:
            fault = await self._diagnosis(given, draft, task, issue)
        return Judgement(issue, (fault,))

    def _rules(self, given: Assignment, draft: Draft, task: Task) -> tuple[Fault, ...]:
        if faults := drafts.structure(task, draft):
            return tuple(Fault("gt_unfixable", fault.reason, fault.turn) for fault in faults)
        return tuple(
            Fault("query_fixable", "; ".join(reasons), turn)
            for turn, text in enumerate(task.script)
            if text != RETURN_SENTENCE and (reasons := spoken.amiss(given.environment, draft.turns[turn], text))
        )

    async def _verdict(
        self, given: Assignment, draft: Draft, task: Task, *, joint: bool
    ) -> tuple[str, str, Fault | None]:
        """The judge's reason, what is wrong ("" where the sample passes), and in the joint form the fault."""
        count = len(task.script)
        fields: dict[str, Schema] = {**dict.fromkeys(CRITERIA, VERDICT), "issue": ISSUE}
        if joint:
            fields |= _fault_fields(("none", *CLASSES), 0, count)

        def read(answer: dict[str, Any]) -> tuple[str, str, Fault | None]:
            failed = [criterion for criterion in CRITERIA if answer[criterion] == "fail"]
            told = answer["issue"].strip() or answer["reason"]
            issue = f"fails {', '.join(failed)}: {told}" if failed else ""
            if not joint:
                return answer["reason"], issue, None
            if bool(failed) != (answer["fault"] != "none"):
                raise Unreadable('fault must be "none" exactly where all five criteria pass')
            return answer["reason"], issue, _fault(answer, issue) if failed else None

        diagnosis, tags, said = self._classes() if joint else ("", "", "")
        return await self.asker.ask(
            given,
            "judge_quality",
            stage="judge",
            fields={
                "type": task.type,
                "meaning": meaning(given, task),
                "state": showing.world(task.state, STATE_ROOM),
                "functions": functions(given, draft),
                "conversation": conversation(draft, task),
                "diagnosis": diagnosis and f"\n{diagnosis}",
                "diagnosis_tags": tags,
                "diagnosis_fields": said and f" Also:{said}",
            },
            form=Form(fields),
            read=read,
            error="query_verify_no_tag",
        )

    async def _diagnosis(self, given: Assignment, draft: Draft, task: Task, issue: str) -> Fault:
        diagnosis, tags, said = self._classes()
        return await self.asker.ask(
            given,
            "refine_classify",
            stage="classify",
            fields={
                "issue": issue,
                "conversation": conversation(draft, task),
                "diagnosis": diagnosis,
                "diagnosis_tags": tags,
                "diagnosis_fields": said,
            },
            form=Form(_fault_fields(CLASSES, 1, len(task.script))),
            read=lambda answer: _fault(answer, issue),
            error="query_verify_no_tag",
        )

    def _classes(self) -> tuple[str, str, str]:
        """What both questions say of the two classes of faults: text, tags, fields."""
        template = load("fault_classes")
        self.asker.hashes["fault_classes"] = template.hash
        sections = template.render_sections()
        return sections["user"], sections["tagged"], " " + sections["constrained"].strip()


def conversation(draft: Draft, task: Task) -> str:
    """The turns as the policy will meet them: in a padded world the calls give other results than in the draft's."""
    return showing.turns(draft, task.script, task.provenance.get("results", ()))


def meaning(given: Assignment, task: Task) -> str:
    """What the type of `task` demands, as the judge is told."""
    if task.type == "long_context":
        return "The world holds much more than the conversation needs; every turn can be served."
    if task.type == "miss_func":
        parts = []
        for turn, names in sorted(task.held_out.items()):
            tools = given.environment.tools()
            at_hand = showing.signatures(tools[name] for name in task.tools_at(turn - 1))
            parts.append(
                f"Up to turn {turn} the function {', '.join(names)} is missing; turn {turn + 1} says in fixed words "
                f"that it is back. In turn {turn} no call is right, because what is asked is out of reach: no function "
                f"at hand there, and no two of them, may do the same. At hand are then:\n{at_hand}"
            )
        return "\n".join(parts)
    if task.type == "miss_param":
        return " ".join(
            f"In turn {turn + 1} the user leaves a needed value open on purpose: nothing before tells or implies it, "
            f"it is no default, and no function finds it out, so no call is right there. Turn {turn + 2} supplies it."
            for turn, calls in enumerate(task.calls)
            if not calls
        )
    return "Every turn can be served with the functions at hand."


CLASSES: tuple[Literal["query_fixable", "gt_unfixable"], ...] = ("query_fixable", "gt_unfixable")


def _fault_fields(classes: tuple[str, ...], first: int, last: int) -> dict[str, Schema]:
    return {
        "fault": {"type": "string", "enum": list(classes)},
        "turn": {"type": "integer", "minimum": first, "maximum": last},
    }


def _fault(answer: dict[str, Any], issue: str) -> Fault:
    if not answer["turn"]:
        raise Unreadable("turn must name the turn at fault, from 1")
    return Fault(answer["fault"], issue, answer["turn"] - 1)
