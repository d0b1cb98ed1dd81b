"""Stage V: the draft in the form of its type (004 §3.3, Appendix P).

Padding a world needs no model. For miss_func a model chooses the function that is taken away in a
turn in which no call is right, or one for each part of the request that could be done otherwise; in
the next turn the fixed sentence says that they are back. For miss_param it chooses a value, asks
for what needs it and leaves it vague; in the next turn it supplies the value and asks for the rest.

Rules decide what may be chosen, so that a weak model cannot choose badly: functions that nothing
earlier needs and that no others replace; a value that the request says and that nothing earlier
tells or shows. The gate `missing` is asked about each, and about the two texts. In the paper's form
(`pipeline.calls = "per_turn"`) a choice is verified by a question that does not show the calls, and
one that fails leads to one other; in the joint form the judge looks at that.
"""

import builtins
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

from rods.analysis.containment import is_small, keys_in
from rods.analysis.profile import isomorphic, profile
from rods.asking import AnswerForm, Unreadable, one_of
from rods.canonical import JsonObject, Texts, frozen
from rods.composing import task_types
from rods.composing.lexicon import sought
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.llm import showing, wording
from rods.daemon.authors.llm.questions import Context
from rods.daemon.authors.llm.wording import UserValue
from rods.environments.base import Result
from rods.gates.missing import missing
from rods.tasks import RETURN_SENTENCE, Task, TaskType

CHOICES = 2  # so many are tried in a turn
FIELD = re.compile(r"\{(\w+)\}")
TOGETHER = 12  # sets of functions that are looked at
CHOOSING = "Choose one that nobody could know: not a default, not what anyone would assume. "


@frozen
class Gap:
    """What a turn without calls lacks: the text that asks in vain, the text of the turn after, the
    tools that are held out between them (none for a value), and what the provenance says of it."""

    request: str
    supply: str
    missing: tuple[JsonObject, ...]
    tools: Texts = ()


@frozen
class PartialTask:
    """A draft on its way to the form `type`: the script so far, the gaps that it has already, and
    the turn without calls at which it is; that turn's request still stands in the turn after.
    `shown`: the tools that the task shows."""

    context: Context
    assignment: StagedAssignment
    draft: Draft
    type: TaskType
    script: Texts
    turn: int = 0
    shown: Texts = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def request(self) -> str:
        return self.script[self.turn + 1]

    @property
    def calls(self) -> tuple[BoundCall, ...]:
        return self.draft.turns[self.turn + 1]

    @property
    def results(self) -> list[list[Result]]:
        return [[bound.result for bound in calls] for calls in self.draft.turns]

    def before(self, room: int) -> str:
        """The conversation before the turn, as prompts show it, with `room` characters for
        results."""
        short = showing.within(self.draft, room, range(self.turn))
        return showing.turns(short, self.script, range(self.turn)) or "(nothing yet)"

    def tools(self, without: Sequence[str] = ()) -> str:
        """The tools of the task, as prompts show them."""
        tools = self.context.environment.tools()
        return showing.purposes(tools[name] for name in self.shown if name not in without)

    def fields(self, choices: str, room: int) -> dict[str, str]:
        """The fields of a prompt that asks what to take away, with `room` characters for
        results."""
        short = showing.within(self.draft, room, range(self.turn + 2))
        calls = showing.turn_lines(short.turns[self.turn + 1])
        asked = {"before": self.before(room), "turn": str(self.turn + 1), "query": self.request}
        return {**asked, "calls": calls, "choices": choices}

    def with_gap(self, gap: Gap) -> "PartialTask":
        return replace(
            self,
            script=(
                *self.script[: self.turn],
                gap.request,
                gap.supply,
                *self.script[self.turn + 2 :],
            ),
            gaps=(*self.gaps, gap),
        )

    def task(self) -> Task:
        """The task as far as it is. It shows no more tools than it may, and the same ones each
        time."""
        catalogue = replace(
            self.context.catalogue, shown=self.assignment.shown(self.context.catalogue.shown)
        )
        parts = (
            self.context.environment,
            self.draft,
            self.script,
            self.type,
            self.assignment.rng(f"form {self.type}"),
        )
        return task_types.finished(
            catalogue,
            *parts,
            later_tools={gap.missing[0]["turn"] + 1: gap.tools for gap in self.gaps if gap.tools},
            missing=[record for gap in self.gaps for record in gap.missing],
        )

    def served(self, gap: Gap, *, fair: bool = True) -> list[str]:
        """How the turn could be served for certain without what `gap` takes away; with `fair`, any
        part of it."""
        task = self.with_gap(gap).task()
        blamed = missing(self.context.environment, task, self.results, fair=fair)
        return [
            reason.text for reason in blamed if reason.turn == self.turn + 1 and not reason.doubt
        ]

    def removable_functions(self) -> list[Gap]:
        """What functions leave behind that may be taken away together. Raises
        ComposeError("no_pattern") for none."""
        looking = sought(
            self.context.environment, self.request, (bound.call.name for bound in self.calls)
        )
        choices = task_types.removable(self.context.catalogue, self.draft, self.turn + 1, looking)
        choices += [[name] for name in self._takers(choices)]
        gaps = [
            Gap(
                self.request,
                RETURN_SENTENCE,
                tuple({"turn": self.turn, "tool": tool} for tool in tools),
                tools,
            )
            for tools in islice(product(*choices), TOGETHER)
        ]
        if fitting := [gap for gap in gaps if not self.served(gap)]:
            return fitting
        tools = dict.fromkeys(tool for gap in gaps for tool in gap.tools)
        raise ComposeError(
            "no_pattern",
            f"turn {self.turn + 2} can be done without {' and '.join(tools)}: choose others there",
            turn=self.turn + 1,
            functions=self.draft.functions([self.turn + 1]),
        )

    def _takers(self, choices: Sequence[Sequence[str]]) -> list[str]:
        """Tools that take up what a function that may be missing makes, where nothing earlier needs
        them: at hand they would look as if they could make it themselves."""
        catalogue = self.context.catalogue
        named = {name for names in choices for name in names}
        kept = named | catalogue.known | catalogue.lookups | catalogue.common
        kept |= {bound.call.name for calls in self.draft.turns[: self.turn] for bound in calls}
        calls = [bound.call for bound in self.calls]
        made = set[Any]().union(*(keys_in(call.arguments) for call in calls if call.name in named))
        takers = [call.name for call in calls if not made.isdisjoint(keys_in(call.arguments))]
        return [name for name in dict.fromkeys(takers) if name not in kept]

    def omissible_values(self) -> list[UserValue]:
        """The values that may be left open; rather not an option that the tool lists, and of the
        first request. Raises ComposeError("no_pattern") when there is none."""
        earlier = [*self.script[: self.turn]]
        earlier += [bound.result.text for calls in self.draft.turns[: self.turn] for bound in calls]
        fitting = []
        for value in wording.user_values(self.context.environment.tools(), self.calls):
            vague = not value.needed or (value.free and is_small(value.value))
            if vague or not value.said_in([self.request]) or value.said_in(earlier):
                continue
            # as rules see the request before a model has found other words
            silent = re.sub(re.escape(value.slot.text), "", self.request, flags=re.IGNORECASE)
            if not self.served(self.value_gap(value, silent, value.slot.text), fair=False):
                fitting.append(value)
        if not fitting:
            raise ComposeError(
                "no_pattern",
                f"turn {self.turn + 2} needs nothing that only its user can know: choose functions "
                f"there that do",
                turn=self.turn + 1,
                functions=self.draft.functions([self.turn + 1]),
            )
        fitting = [value for value in fitting if not value.free] or fitting
        return [value for value in fitting if value.bound.recipe == self.calls[0].recipe] or fitting

    def value_gap(self, value: UserValue, request: str, supply: str) -> Gap:
        record = {
            "turn": self.turn,
            "argument": value.argument,
            "value": value.value,
            "domain": self.context.catalogue.family(value.slot.domain),
        }
        return Gap(request, supply, (record,))


async def form(
    context: Context,
    assignment: StagedAssignment,
    draft: Draft,
    texts: Texts,
    type: TaskType,
    made: builtins.type[PartialTask] = PartialTask,
) -> Task:
    """The draft as a task of `type`, as `made` makes one. Raises ComposeError: `no_pattern` where
    nothing may be taken away, and `query_verify_failed` where the turn can be served all the
    same."""
    partial = made(context, assignment, draft, type, texts)
    task = await context.compute(partial.task)
    blanks = task_types.blanks(draft, texts, type)
    for turn in blanks:
        partial = replace(partial, turn=turn, shown=task.tools)
        missing_there = _missing_function if type == "miss_func" else _missing_value
        partial = partial.with_gap(await missing_there(context, partial))
    return await context.compute(partial.task) if blanks else task


def check_form(context: Context, assignment: StagedAssignment, draft: Draft) -> None:
    """Raises ComposeError, before anybody words the draft: what will be said is taken to be its
    functions' phrases, and what must be said. `conversation_construct_failed` where its calls do
    not depend on each other as the root's do, `no_pattern` where the form of the wanted type cannot
    be made of it."""
    type = assignment.profile.type
    texts = tuple(_likely_text(context, calls) if calls else "" for calls in draft.turns)
    partial = PartialTask(context, assignment, draft, type, texts)
    if type != "base":
        _check_type(partial)
    if assignment.limits.profile:
        # in a turn without calls the user asks for the next one's; how values are said is not known
        script = tuple(text or texts[turn + 1] for turn, text in enumerate(texts))
        limits = assignment.limits.model_copy(update={"profile_distance": 1.0})
        likely = replace(partial, type="base", script=script).task()
        shape = profile(context.environment, likely, partial.results)
        if why := isomorphic(assignment.profile, shape, limits):
            raise ComposeError("conversation_construct_failed", "; ".join(why))


def _check_type(partial: PartialTask) -> None:
    task = partial.task()
    if partial.type == "long_context" and not task_types.lengthened(task, partial.draft):
        raise ComposeError(
            "no_pattern", "its world cannot be made longer around these calls: choose others"
        )
    partial = replace(partial, shown=task.tools)
    for turn in task_types.blanks(partial.draft, partial.script, partial.type):
        at = replace(partial, turn=turn)
        _ = at.removable_functions() if partial.type == "miss_func" else at.omissible_values()


def _likely_text(context: Context, calls: Sequence[BoundCall]) -> str:
    """The phrases of a turn's functions, and what must be said besides."""
    phrases = dict[str, None]()
    for bound in calls:
        recipe = context.catalogue.recipes.get(bound.recipe)
        phrase = "" if recipe is None else recipe.phrases[0]
        for name, slot in bound.slots.items():
            phrase = phrase.replace(f"{{{name}}}", slot.text)
        phrases[FIELD.sub("", phrase)] = None
    text = ", then ".join(filter(None, phrases))
    values = wording.user_values(context.environment.tools(), calls)
    unsaid = [value.slot.text for value in values if not value.said_in([text])]
    return ", ".join([text, *unsaid]) + "."


async def _missing_function(context: Context, partial: PartialTask) -> Gap:
    """The function, or functions, that are taken away in a turn."""
    gaps = await context.compute(partial.removable_functions)
    for _ in range(min(CHOICES, len(gaps))):
        names = [" and ".join(gap.tools) for gap in gaps]
        chosen = names[0]
        if len(gaps) > 1:
            room = context.asker.roles.adversarial.results
            fields = {**partial.fields(", ".join(names), room), "tools": partial.tools()}
            answers = AnswerForm({"function": one_of(*names)})
            chosen = await context.ask(
                partial.assignment,
                "miss_func",
                fields,
                answers,
                lambda answer: str(answer["function"]),
                turn=partial.turn,
            )
        gap = gaps.pop(names.index(chosen))
        if await _verified(context, partial, gap, "served"):
            return gap
    raise ComposeError(
        "query_verify_failed",
        "the request can be served without what is missing",
        turn=partial.turn,
    )


async def _missing_value(context: Context, partial: PartialTask) -> Gap:
    """The value that is left open in a turn, with the vague request and the sentence that supplies
    the value."""
    environment = partial.context.environment
    choices = await context.compute(partial.omissible_values)
    values = wording.user_values(environment.tools(), partial.calls)

    def read(answer: JsonObject) -> tuple[int, Gap]:
        chosen = choices[answer["choice"] - 1]
        request = answer["request"].strip()
        supply = answer["supply"].strip()
        for name, text in (("request", request), ("supply", supply)):
            if reasons := wording.form_faults(environment, partial.calls, text):
                raise Unreadable(f"{name}: {'; '.join(reasons)}")
        why = ""
        words = showing.compact(chosen.slot.text)
        others = [
            value
            for value in values
            if value.value != chosen.value and value.said_in([partial.request])
        ]
        if chosen.said_in([request]) or not chosen.said_in([supply]):
            why = f"request must not say {words}, and supply must say it word for word"
        elif lost := [
            showing.compact(value.slot.text)
            for value in others
            if not value.said_in([request, supply])
        ]:
            why = f"request, or supply after the value, must still say {', '.join(lost)}"
        if why:
            raise Unreadable(why, error="query_verify_failed")
        return answer["choice"] - 1, partial.value_gap(chosen, request, supply)

    async def check(reading: tuple[int, Gap]) -> None:
        if ways := await context.compute(partial.served, reading[1]):
            raise Unreadable(
                f"request must ask for nothing that can be done before supply is said: "
                f"{'; '.join(ways)}",
                error="query_verify_failed",
            )

    for _ in range(min(CHOICES, len(choices))):
        lines = [
            f"{number}. {value.argument} of {value.bound.call.name}: "
            f"{showing.compact(value.slot.text)}"
            for number, value in enumerate(choices, start=1)
        ]
        fields = partial.fields("\n".join(lines), context.asker.roles.adversarial.results)
        used = [partial.turn + 1]
        fields["functions"] = showing.functions(environment.tools(), partial.draft, used)
        objection = partial.assignment.objection
        fields["choosing"] = (CHOOSING if len(choices) > 1 else "") + (
            f"Texts written before could not be used, so do better: {objection}\n\n"
            if objection
            else ""
        )
        form = AnswerForm(
            {
                "choice": {"type": "integer", "minimum": 1, "maximum": len(choices)},
                "request": wording.TEXT,
                "supply": wording.TEXT,
            }
        )
        number, gap = await context.ask(
            partial.assignment, "miss_param", fields, form, read, check=check, turn=partial.turn
        )
        if await _verified(context, partial, gap, "known"):
            return gap
        choices.pop(number)
    raise ComposeError(
        "query_verify_failed", "what is missing is known, or can be found out", turn=partial.turn
    )


async def _verified(context: Context, partial: PartialTask, gap: Gap, field: str) -> bool:
    """Whether the turn really cannot be served. Asked in the paper's form alone."""
    if context.settings.calls == "batched":
        return True
    fields = {
        "before": partial.before(context.asker.roles.adversarial_verification.results),
        "query": gap.request,
        "tools": partial.tools(without=gap.tools),
    }
    form = AnswerForm({field: one_of("yes", "no")})
    return await context.ask(
        partial.assignment,
        f"{partial.type}_verify",
        fields,
        form,
        lambda answer: bool(answer[field] == "no"),
        turn=partial.turn,
        judges=True,
    )
