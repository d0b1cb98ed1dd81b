"""Stage IV, gate 4: a model judges by the paper's five criteria, and says where the root of a
defect lies (004 Appendices C.4, C.5 and G). Asked again after stage V.

In the joint form (`pipeline.calls =
"batched"`) one answer holds verdict, class and turn; in the paper's form a rejected sample is
diagnosed by a call of its own."""

from collections.abc import Sequence
from dataclasses import replace

from rods.analysis.containment import values_in
from rods.asking import AnswerForm, Schema, Unreadable, one_of
from rods.canonical import JsonObject
from rods.composing.records import BoundCall, Draft
from rods.daemon.authors.base import Judgement, StagedAssignment, with_calls
from rods.daemon.authors.llm import showing
from rods.daemon.authors.llm.questions import Context
from rods.environments.base import Results, value_of
from rods.faults import Defect, Reason
from rods.tasks import Task

CRITERIA = ("alignment", "consistency", "coherence", "naturalness", "structure")
CLASSES = ("query_fixable", "gt_unfixable")
CLASS_FIELDS = ("diagnosis", "diagnosis_tags", "diagnosis_fields")
VERDICT = one_of("pass", "fail")


async def judge(
    context: Context,
    assignment: StagedAssignment,
    draft: Draft,
    task: Task,
    results: Results | None = None,
    doubts: Sequence[Reason] = (),
) -> Judgement:
    """Raises ComposeError("query_verify_no_tag") for an answer that cannot be read or contradicts
    itself."""
    roles = context.asker.roles
    joint = context.settings.calls == "batched"
    # One length for both texts: a grammar engine compiles each length once.
    text = {"type": "string", "maxLength": roles.judge.reason}
    form = {**dict.fromkeys(CRITERIA, VERDICT), "issue": text}
    if joint:
        form |= _defect_fields(("none", *CLASSES), 0, len(task.script))

    def read(answer: JsonObject) -> Judgement:
        failed = [criterion for criterion in CRITERIA if answer[criterion] == "fail"]
        if joint and bool(failed) != (answer["fault"] != "none"):
            raise Unreadable('fault must be "none" exactly where all five criteria pass')
        if not failed:
            return Judgement(answer["reason"])
        issue = f"fails {', '.join(failed)}: {answer['issue'].strip() or answer['reason']}"
        # in the paper's form the class is asked for below
        return Judgement(
            issue, (_defect(answer, issue) if joint else Defect("gt_unfixable", issue),)
        )

    fields = {
        "type": task.type,
        "meaning": meaning(task),
        "state": showing.state(task.state, roles.judge.world),
        "functions": showing.functions(context.environment.tools(), draft, range(len(draft.turns))),
        "conversation": conversation(draft, task, roles.judge.results),
        "doubts": "\n".join(map(_doubt, doubts)),
        **(_class_fields(context, "\n", " Also:") if joint else dict.fromkeys(CLASS_FIELDS, "")),
    }
    judgement = await context.ask(
        assignment,
        "judge_quality",
        fields,
        AnswerForm(form),
        read,
        sections=["doubts"] if doubts else [],
        judges=True,
    )
    if joint or not judgement.defects:
        return judgement
    issue = judgement.reason
    turns = conversation(draft, task, roles.classify.results)
    fields = {"issue": issue, "conversation": turns, **_class_fields(context)}
    classes = AnswerForm(_defect_fields(CLASSES, 1, len(task.script)))
    defect = await context.ask(
        assignment,
        "refine_classify",
        fields,
        classes,
        lambda answer: _defect(answer, issue),
        judges=True,
    )
    return Judgement(issue, (defect,))


def _doubt(reason: Reason) -> str:
    place = "" if reason.call is None else f", call {reason.call + 1}"
    return f"- turn {(reason.turn or 0) + 1}{place}: {reason.text}"


def _class_fields(context: Context, before: str = "", also: str = "") -> dict[str, str]:
    """What both questions say of the two classes of defects."""
    sections = context.asker.template("fault_classes").render_sections()
    texts = (
        before + sections["user"],
        sections["tagged"],
        f"{also} {sections['constrained'].strip()}",
    )
    return dict(zip(CLASS_FIELDS, texts, strict=True))


def conversation(draft: Draft, task: Task, room: int) -> str:
    """The turns as the policy will meet them: in a padded world the calls give other results than
    in the draft's, of which padding is left out."""
    if results := task.provenance.get("results", ()):

        def met(turn: int, place: int, bound: BoundCall) -> BoundCall:
            text = results[turn][place]
            # what the call gives without the padding stays
            values = list(values_in(value_of(bound.result), keys=True))
            room = len(bound.result.text) + 2 * showing.AROUND * (1 + len(values))
            short = showing.excerpt(text, room, values)
            if short != text:
                short += f" (of {len(text)} characters, most of them padding)"
            return replace(bound, result=bound.result._replace(text=short))

        draft = with_calls(draft, met)
    return showing.turns(showing.within(draft, room), task.script, range(len(draft.turns)))


def meaning(task: Task) -> str:
    """What the type of `task` demands, as the judge is told."""
    if task.type == "long_context":
        return "The world holds much more than the conversation needs; every turn can be served."
    if task.type == "miss_func":
        parts = []
        for turn, names in sorted(task.later_tools.items()):
            many = len(names) > 1
            at_hand = ", ".join(task.tools_at(turn - 1))
            parts.append(
                f"Up to turn {turn} the function{'s' * many} {', '.join(names)} "
                f"{'are' if many else 'is'} missing; turn {turn + 1} says in fixed words that "
                f"{'they are' if many else 'it is'} back. In turn {turn} no call is right, because "
                "what is asked is out of reach: no function at hand there, and no two of them, may "
                f"do the same. At hand are then:\n{at_hand}"
            )
        return "\n".join(parts)
    if task.type == "miss_param":
        return " ".join(
            f"In turn {turn + 1} the user leaves a needed value open on purpose: nothing before "
            "tells or implies it, it is no default, and no function finds it out, so no call is "
            f"right there. Turn {turn + 2} supplies it."
            for turn, calls in enumerate(task.calls)
            if not calls
        )
    return "Every turn can be served with the functions at hand."


def _defect_fields(classes: tuple[str, ...], first: int, last: int) -> dict[str, Schema]:
    return {
        "fault": one_of(*classes),
        "turn": {"type": "integer", "minimum": first, "maximum": last},
    }


def _defect(answer: JsonObject, issue: str) -> Defect:
    if not answer["turn"]:
        raise Unreadable("turn must name the turn at fault, from 1")
    return Defect(answer["fault"], issue, answer["turn"] - 1)
