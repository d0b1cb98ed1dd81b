"""Stage II: values for what a plan leaves open, and execution call by call (004 §3.3, Appendix D).

The plan is bound and run with the answers so far; where one is missing, chance stands in for it and
an `UnboundArgument` is noted, with the values that are to be had at its moment. Where a listed one
is gone, since other answers than chance's come before it, chance takes one of those that there are:
no question is worth it. The model is asked for all blanks that a run shows; what calls return that
depend on them is asked for once it is known. Then the plan is run again, and in a patched state
with the values of before. Values of a recipe are chosen among those that its domains list. Of a
single tool they are whatever its schema allows: what works now, as `probing` finds it, is shown as
examples, and the world judges. What turns out to be impossible, or makes a call fail, is asked
again with the reason, a few times; then the error goes to the critic or back to the planner."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from rods.analysis.containment import is_small, values_in
from rods.analysis.schemas import fits, limits
from rods.asking import AnswerForm, obj
from rods.canonical import JsonMapping, JsonObject, canonical, frozen, unique, without
from rods.composing.bind import Choice, Chooser, meant, random_chooser, realise, spoken
from rods.composing.catalogue import LEFT_OUT, FromUser, Scene, Worded
from rods.composing.records import ComposeError, Draft, Plan
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.catalogue_free import is_single_tool, linking, takes_free_text
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.daemon.authors.llm import showing
from rods.daemon.authors.llm.forming import check_form
from rods.daemon.authors.llm.questions import NARRATIVE, Context, Key
from rods.daemon.authors.state_shapes import State, contents
from rods.environments.base import Tools

AGAIN = 2  # times that a value is asked for anew
SURVEYS = 6  # runs by chance until one shows all blanks
OPTIONS = 12  # offered for one value
NEW = 8  # of them, where fewer are in the world
EXAMPLES = 2
LONGEST = 80  # characters of an invented text
LIST = 4  # elements of an invented list, where no listed one is longer
LENGTHS = ("maxLength", "maxItems")
SAME = "the value of {}"  # which another blank gets
PHRASE = 2.5  # words from which on the listed texts are phrases, not names


@frozen
class UnboundArgument:
    """A value to be chosen: one of `options` (by label; a few of all the `values`), or one within
    `schema` where it is not `closed`. `problem` says what was wrong with the last answer."""

    key: Key
    tool: str
    argument: str
    values: Sequence[Any]
    options: Mapping[Any, Any]
    closed: bool
    schema: JsonMapping
    optional: bool
    problem: str = ""
    fed: bool = False  # the values are what calls returned that should feed it

    @property
    def id(self) -> str:
        return _id(self.key)

    def as_schema(self) -> JsonObject:
        """JSON Schema of an answer."""
        if self.closed:
            return {"enum": list(self.options)}
        # A grammar engine unrolls lengths; whoever reads the answer holds it to the whole schema.
        return {
            name: word
            for name, word in self.schema.items()
            if name not in LENGTHS or word <= LONGEST
        }

    def value(self, answer: Any) -> Any:
        """The value that an answer of this schema means."""
        value = answer
        if isinstance(answer, (str, int, float)):
            value = self.options.get(answer, answer)
        if isinstance(value, (bool, int, float)) and _kind(value) is not _kind(answer):
            return answer  # 1 and True are one key of a dictionary, and two answers
        return value

    def line(self) -> str:
        """The blank as a prompt lists it."""
        may: JsonObject = (
            {"found by an earlier call" if self.fed else "one of": list(self.options)}
            if self.closed
            else {"any": showing.bounded(self.schema)}
        )
        if not self.closed:
            # in words, the schema would refuse them
            whole = self.schema.get("type") in ("array", "object")
            if such := list(self.options.values() if whole else self.options)[:EXAMPLES]:
                may["such as"] = such
        if self.optional:
            may["may be left out"] = True
        if self.problem:
            may["not again"] = self.problem
        return f"{self.id} ({self.argument} of {self.tool}): {showing.compact(may)}"


@dataclass(slots=True)
class Answers:
    """What is known while one plan is bound: the answers, and what was wrong with those that
    failed."""

    values: dict[Key, Any] = field(default_factory=dict)
    # of a recipe: must be one of those listed from then on
    problems: dict[Key, str] = field(default_factory=dict)
    feedback: bool = True
    asked: Counter[Key] = field(default_factory=Counter)
    became: dict[Key, str] = field(default_factory=dict)  # answers that left no choice but another
    invented: set[Key] = field(default_factory=set)
    prober: Prober | None = None

    def add(self, values: Mapping[Key, Any], blanks: Sequence[UnboundArgument]) -> None:
        """Raises ComposeError when a value has been asked for too often."""
        for blank in blanks:
            if not blank.closed:
                self.invented.add(blank.key)
            self.asked[blank.key] += 1
            if self.asked[blank.key] > AGAIN + 1:
                raise ComposeError(
                    "param_gen_failed",
                    f"no possible value for {blank.argument} after {AGAIN + 1} answers",
                    function=blank.tool,
                    turn=blank.key[0],
                )
        self.values.update(values)

    def reopen(self, error: ComposeError, run: "ValueChooser") -> None:
        """After a run that failed although everything is answered, values are asked for anew, with
        the reason, a few times: those of the function that was refused, else those that were
        invented before it; where calls do not feed each other as in the root, all; and with each
        the same value of later calls. Raises the error when there is nothing more to ask."""
        keys = list[Key]()
        turn = error.turn or 0
        if error.call is not None or error.type in ("vm_exec_failed", "param_gen_failed"):
            keys = [key for key in self.values if key[:2] == run.place and key[0] == turn]
            fresh = self.invented - self.problems.keys()
            keys = keys or [key for key in self.values if key in fresh and key[0] <= turn]
        elif error.type == "conversation_construct_failed":
            keys = [*self.values]
        if not self.feedback or not keys or max(self.asked[key] for key in keys) > AGAIN:
            raise error
        for key in keys:
            self.problems[key] = error.detail[:200]
            old = self.values.pop(key, None)
            for later, value in [*self.values.items()]:
                if later[:2] > key[:2] and not is_small(old) and old in values_in(value):
                    del self.values[later]


@dataclass(slots=True)
class ValueChooser:
    """The `Chooser` of one run: takes what is answered, and notes as `blanks` what is not.

    Of a recipe, names and options are `closed`: one of those listed must be taken. Texts in whole
    phrases and amounts may be invented within the tool's schema, until an invented one has failed.
    Of a single tool lists are guesses: what works now, as the `prober` finds it, and what earlier
    calls have returned that should feed the place, are examples.
    """

    tools: Tools
    answers: Answers
    rng: Random
    prober: Prober | None = None
    blanks: dict[Key, UnboundArgument] = field(default_factory=dict)
    scene: Scene | None = None  # at the first blank
    place: tuple[int, int] = (-1, -1)  # of the last choice
    # what chance has put into the world as new, and for which blank
    drafts: dict[str, Key] = field(default_factory=dict)
    only: dict[Key, UnboundArgument] = field(default_factory=dict)  # what leaves no choice
    given: list[tuple[str, Any]] = field(default_factory=list)  # answers, with their domains
    stand_in: Chooser = field(init=False)

    def __post_init__(self) -> None:
        self.stand_in = (
            random_chooser(self.rng) if self.prober is None else self.prober.chooser(self.rng)
        )

    def __call__(self, choice: Choice) -> Any:
        key = (choice.turn, choice.place, choice.slot)
        self.place = key[:2]
        single = is_single_tool(choice.recipe)
        blank = self._blank(key, choice, single=single)
        if len(blank.values) == 1 and blank.closed and not blank.optional:
            (only,) = blank.values
            self.only[key] = blank
            answer = self.answers.values.get(key, only)
            if _taken(blank, answer) is None:
                self.answers.became[key] = f"{spoken(answer)} became {spoken(only)}"
            return only
        if key in self.answers.values:
            answer = self.answers.values[key]
            taken = _taken(blank, answer)
            if taken is None and self._named(choice, answer) and not blank.problem:
                taken = answer  # the world judges
            if taken is not None:
                self.given.append((choice.domain, answer))
                return taken
            if self.answers.feedback:
                blank = replace(
                    blank, problem=f"{repr(spoken(answer))[:80]} is not to be had at that moment"
                )
        self.blanks[key] = blank
        self.scene = self.scene or choice.scene
        left_out = [LEFT_OUT] if blank.optional else []
        drawn = self.stand_in(
            choice if single else replace(choice, values=[*blank.values, *left_out])
        )
        new = isinstance(drawn, str) and canonical(drawn) not in contents(choice.scene.state)
        if new and "enum" not in blank.schema:
            self.drafts.setdefault(drawn, key)
        return drawn

    def _named(self, choice: Choice, answer: Any) -> bool:
        """Whether a list of what the world has not got yet lacks a value only since the user has
        named it as another."""
        there = contents(choice.scene.state)
        known = sum(canonical(meant(value)) in there for value in choice.values)
        return 2 * known < len(choice.values) and any(
            domain != choice.domain and answer == said for domain, said in self.given
        )

    def _blank(self, key: Key, choice: Choice, *, single: bool) -> UnboundArgument:
        tool, argument = _filled(choice)
        parameter = self.tools[tool].by_name[argument]
        schema = {**limits(parameter), "description": parameter.description}
        optional = LEFT_OUT in choice.values
        values = [value for value in choice.values if value is not LEFT_OUT]
        apt = True
        fed = False
        if single:
            closed = "enum" in schema or schema.get("type") == "boolean"
            if self.prober is not None and not closed:
                probed = self.prober.here(choice)
                fed = closed = probed.fed == argument
                if probed.working:
                    given = (call.arguments for call, _ in probed.working)
                    values = unique(each[argument] for each in given if argument in each)
                    # where anything is taken, that it was says nothing of a value
                    apt = fed or argument in probed.existing
        else:
            schema = _limited(schema, values)
            closed = key in self.answers.problems or _is_closed(choice, argument, values, schema)
        few = values if apt else []
        # a few of them, those of earlier turns first
        if len(few) > OPTIONS and not (single and closed):
            earlier = [value for value in values if meant(value) in choice.earlier][: OPTIONS // 4]
            rest = [value for value in values if value not in earlier]
            start = self.scene or choice.scene
            salt = len(canonical(start.state))
            # the same of two lists as far as they share them, and what is there already
            there = contents(start.state)
            rest.sort(key=lambda value: Random(f"{salt} {spoken(value)}").random())
            rest.sort(key=lambda value: canonical(meant(value)) not in there)
            known = sum(canonical(meant(value)) in there for value in rest)
            few = earlier + rest[: min(max(NEW, known), OPTIONS) - len(earlier)]
        # Numbers and truth values are written as they are, anything else in words.
        # What chance has put into the world is told by where it comes from, and what stands in its
        # texts is left out: nobody sees it.
        texts = [text for text in self.drafts if " " in text]
        few = [value for value in few if not _stands_in(value, texts)] or few
        options = {
            value
            if isinstance(value, (bool, int, float))
            else SAME.format(_id(self.drafts[value]))
            if isinstance(value, str) and value in self.drafts
            else spoken(value): value
            for value in few
        }
        problem = self.answers.problems.get(key, "")
        return UnboundArgument(
            key, tool, argument, values, options, closed, schema, optional, problem, fed
        )


async def execute(
    context: Context, assignment: StagedAssignment, plan: Plan, state: State
) -> Draft:
    """The draft of a plan, its values the model's, of which the form of the seed's type can be
    made. Raises ComposeError: `param_gen_failed` for values that never fit, `vm_exec_failed` for
    calls that the world refuses, `duplicate_func`, `conversation_construct_failed` for single tools
    that do not feed each other as in the root, and as `check_form`."""
    answers = Answers(feedback=context.settings.feedback)
    if context.answered is not None and context.answered[0] is plan:  # its state was patched
        _, answers.values, answers.invented = context.answered
        answers.asked.update(answers.values.keys())
    else:
        context.story = plan.narrative.get("story", "")
    context.answered = plan, answers.values, answers.invented
    while True:
        outcome = await context.compute(_bound, context, assignment, plan, state, answers)
        if isinstance(outcome, Draft):
            await context.compute(check_form, context, assignment, outcome)
            changed = "; ".join(answers.became.values())
            told = f"{context.story} ({changed}.)" if changed else context.story
            story = {"story": told} if context.story else {}
            return replace(outcome, plan=replace(plan, narrative=story))
        blanks, fields = outcome
        answers.add(await _asked(context, assignment, blanks, fields), blanks)


def _bound(
    context: Context, assignment: StagedAssignment, plan: Plan, state: State, answers: Answers
) -> Draft | tuple[Sequence[UnboundArgument], Mapping[str, str]]:
    """The draft, or what is still to be asked for it: the blanks, and the fields of the
    template."""
    catalogue = context.catalogue
    tools = context.environment.tools()
    if answers.prober is None and linking.are_single_tools(catalogue, plan):
        answers.prober = Prober(
            context.environment, catalogue, state, linking.feeding(assignment), context.asker.tell
        )
    while True:
        runs = []
        # where chance fails on the way, another run may show more of what is to be asked
        for number in range(SURVEYS):
            run = ValueChooser(tools, answers, assignment.rng(f"chance {number}"), answers.prober)
            try:
                draft = realise(context.environment, catalogue, plan, state, run)
                draft = linking.with_inferred_flows(
                    context.environment, catalogue, assignment, draft
                )
                if not run.blanks:
                    return draft
            except ComposeError as error:
                # whose frames would hold the world in a cycle with it
                runs.append((error.with_traceback(None), run))
                if not run.blanks:
                    break
            else:
                return _question(context, plan, state, run)
        # nothing to choose from, whatever is chosen before
        if all(error.domain for error, _ in runs):
            raise runs[0][0]
        failure, run = max(runs, key=lambda pair: len(pair[1].blanks))
        # where calls do not feed each other as in the root, whatever is chosen now, that is no use
        if run.blanks and failure.type != "conversation_construct_failed":
            return _question(context, plan, state, run)
        answers.reopen(failure, run)


def _question(
    context: Context, plan: Plan, state: State, run: ValueChooser
) -> tuple[Sequence[UnboundArgument], Mapping[str, str]]:
    """What to ask for now: all blanks of a run but those to which calls bring values that depend on
    others. Holds no world: many questions wait for an answer at a time."""
    assert run.scene is not None
    first, *rest = run.blanks.values()
    here = first.key[:2]
    blanks = [first, *(blank for blank in rest if not blank.fed or blank.key[:2] == here)]
    unknown = (blank for key, blank in run.only.items() if key not in run.answers.values)
    blanks += [blank for blank in unknown if not blank.fed]
    # A snapshot may hold more than an initial state, which is how the world describes itself.
    world = run.scene.state if run.scene.state.keys() == state.keys() else state
    role = context.asker.roles.parameters
    calls = run.scene.calls
    share = role.results // max(1, len(calls))
    ran = [
        showing.call_line(call, result._replace(text=showing.excerpt(result.text, share)))
        for call, result in calls
    ]
    progress = {
        "done": "\n".join(ran) or "(none)",
        "values": "\n".join(blank.line() for blank in blanks),
    }
    # what is to be had stands in the lists of recipes
    share = 1 if run.prober is not None else 2
    room = role.world // (4 if all(blank.closed for blank in blanks) else share)
    setting = showing.setting(context.catalogue, plan, world, room)
    return blanks, {**setting, **progress, "story": context.story or "(none)"}


async def _asked(
    context: Context,
    assignment: StagedAssignment,
    blanks: Sequence[UnboundArgument],
    fields: Mapping[str, str],
) -> dict[Key, Any]:
    optional = frozenset(blank.id for blank in blanks if blank.optional)
    told = assignment.narrative and not context.story
    story = {"story": NARRATIVE} if told else {}
    wanted = obj({blank.id: blank.as_schema() for blank in blanks}, optional)
    form = AnswerForm({**story, "values": wanted})

    def read(answer: JsonObject) -> dict[Key, Any]:
        context.story = context.story or answer.get("story", "").strip()
        said = answer["values"]
        values: dict[Key, Any] = {}
        for blank in blanks:
            own = said.get(blank.id, LEFT_OUT)
            same = (values[key] for key in values if own == SAME.format(_id(key)))
            values[blank.key] = next(same, LEFT_OUT if own is LEFT_OUT else blank.value(own))
        return values

    return await context.ask(
        assignment,
        "parameters",
        {
            **fields,
            "longest": str(assignment.limits.max_string),
            "root": showing.root(assignment.root),
        },
        form,
        read,
        turn=blanks[0].key[0],
        functions=[blanks[0].tool],
        sections=["tell"] if told else [],
        parts=40 * len(blanks),
    )


def _taken(blank: UnboundArgument, answer: Any) -> Any:
    """The answer as one of the values, or as it is where it may be invented; None when it cannot
    be."""
    if answer is LEFT_OUT:
        return LEFT_OUT if blank.optional else None
    for value in blank.values:
        offered = meant(value)
        other = meant(answer)
        if _kind(offered) is _kind(other) and offered == other:
            return value
    return None if blank.closed or not fits(blank.schema, answer) else answer


def _id(key: Key) -> str:
    turn, place, slot = key
    return f"{turn + 1}.{place + 1}.{slot}"


def _stands_in(value: Any, texts: Sequence[str]) -> bool:
    return isinstance(value, str) and any(value in text and value != text for text in texts)


def _kind(value: Any) -> type:
    """The type of a value, one for all numbers: JSON writes 5.0 as 5, too; 1 and True are two."""
    return float if type(value) is int else type(value)


def _filled(choice: Choice) -> tuple[str, str]:
    """The tool and the argument that the slot goes to first; a thing's own argument where it only
    names one."""
    places = [
        (step.tool, name, source)
        for step in choice.recipe.steps
        for name, source in step.arguments.items()
    ]
    own = (
        place for place in places if isinstance(place[2], FromUser) and place[2].slot == choice.slot
    )
    return next(own, places[0])[:2]


def _is_closed(choice: Choice, argument: str, values: Sequence[Any], schema: JsonMapping) -> bool:
    if (
        "enum" in schema
        or schema.get("type") == "boolean"
        or any(isinstance(value, Worded) for value in values)
    ):
        return True
    parts = [item for value in values for item in (value if isinstance(value, list) else [value])]
    texts = [item for item in parts if isinstance(item, str)]
    if texts:
        return not takes_free_text(argument) and sum(
            len(text.split()) for text in texts
        ) < PHRASE * len(texts)
    world = contents(choice.scene.state).union(
        *(contents(result.value) for _, result in choice.scene.calls)
    )
    return 2 * sum(canonical(item) in world for item in parts) >= len(parts)


def _limited(schema: JsonMapping, values: Sequence[Any]) -> JsonObject:
    """The schema with a bound on invented texts and lists; no list among `values` is too long."""
    limited = without(schema, "description", "default")
    if schema.get("type") == "string" and "enum" not in schema:
        limited["maxLength"] = min(schema.get("maxLength", LONGEST), LONGEST)
        limited["minLength"] = max(schema.get("minLength", 1), 1)
    if schema.get("type") == "array":
        lengths = [len(value) for value in values if isinstance(value, list)]
        most = max([LIST, *lengths])
        limited["maxItems"] = min(schema.get("maxItems", most), most)
    return limited
