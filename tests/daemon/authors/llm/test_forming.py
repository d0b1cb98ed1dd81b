"""Stage V: what is taken away is needed, what is left open is told nowhere, and both come back in
the next turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods.analysis.containment import Text
from rods.analysis.flows import Flow
from rods.asking import Question
from rods.calls import Call
from rods.composing import task_types
from rods.composing.catalogue import catalogue_for
from rods.composing.records import BoundCall, ComposeError, Draft, Plan, PlannedTurn
from rods.config import Gates
from rods.daemon.authors.base import Judgement
from rods.daemon.authors.llm import forming
from rods.daemon.authors.llm.questions import Asker
from rods.environments.base import Result
from rods.errors import UserError
from rods.faults import Defect
from rods.tasks import RETURN_SENTENCE, TASK_TYPES, Task, TaskType
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.tasks import tasks as bfcl_tasks
from tests.daemon.authors.llm.later import later
from tests.daemon.authors.llm.world import assignment
from tests.daemon.pipelines import listening, seed, steady, tells
from tests.environments import desk_tasks, load

pytestmark = pytest.mark.slow

# the calls of stages III to V, in the joint form and in the paper's; the procedural author asks
# none
MAKING = {
    "base": (["rewrite", "judge"], ["rewrite", "judge"]),
    "long_context": (["rewrite", "judge"], ["rewrite", "judge"]),
    "miss_func": (["rewrite", "judge"], ["rewrite", "adversarial_verification", "judge"]),
    "miss_param": (
        ["rewrite", "adversarial", "judge"],
        ["rewrite", "adversarial", "adversarial_verification", "judge"],
    ),
}


def check_form(variant: Task) -> None:
    """What must be true of a variant of each type."""
    blanks = [turn for turn, calls in enumerate(variant.calls) if not calls]
    if variant.type in ("base", "long_context"):
        assert not blanks and not variant.later_tools and RETURN_SENTENCE not in variant.script
        return
    (turn,) = blanks
    (gap,) = variant.provenance["missing"]
    assert gap["turn"] == turn
    if variant.type == "miss_func":
        assert (
            variant.later_tools == {turn + 1: (gap["tool"],)}
            and variant.script[turn + 1] == RETURN_SENTENCE
        )
        # its calls cannot be made without it
        assert gap["tool"] in {call.name for call in variant.calls[turn + 1]}
        assert gap["tool"] not in {call.name for calls in variant.calls[:turn] for call in calls}
        assert gap["tool"] not in variant.tools_at(turn) and gap["tool"] in variant.tools_at(
            turn + 1
        )
    else:
        value = gap["value"]
        assert any(call.arguments.get(gap["argument"]) == value for call in variant.calls[turn + 1])
        results = [text for texts in variant.provenance["results"][: turn + 1] for text in texts]
        assert not any(
            Text.of(text).contains_exact(value) for text in [*variant.script[: turn + 1], *results]
        )
        assert Text.of(variant.script[turn + 1]).contains_exact(value) and not variant.later_tools


@pytest.mark.parametrize("calls", ["batched", "per_turn"])
@pytest.mark.parametrize("type", TASK_TYPES)
async def test_each_type_is_written_with_as_few_calls_as_its_form_needs(
    stub: Stub, type: TaskType, calls: str
) -> None:
    async with later(stub, of=seed(type), calls=calls) as it:
        variant = await it.bench.variant(seed(type), it.author)
    check_form(variant)
    assert it.stages() == MAKING[type][calls == "per_turn"]
    assert set(variant.provenance["prompts"]) >= {"rewrite_turns", "judge_quality"}


@pytest.fixture(scope="module")
def bfcl_seeds() -> Iterator[dict[TaskType, Task]]:
    """A training task of each type whose calls are the file system's."""
    try:
        wheel.path()
    except UserError as error:
        pytest.skip(str(error))
    tools = load("bfcl").tools()

    def fits(task: Task) -> bool:
        groups = {tools[call.name].group for calls in task.calls for call in calls}
        blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
        return (
            groups == {"GorillaFileSystem"}
            and len(blanks) == task.type.startswith("miss")
            and bool(task.calls[-1])
        )

    yield {
        type: next(
            task
            for task in bfcl_tasks()
            if task.type == type and task.split == "train" and fits(task)
        )
        for type in TASK_TYPES
    }


@pytest.mark.parametrize("type", TASK_TYPES)
async def test_each_type_is_written_for_bfcl_s_file_system(
    stub: Stub, bfcl_seeds: dict[TaskType, Task], type: TaskType
) -> None:
    async with later(stub, of=bfcl_seeds[type], calls="per_turn", attempts=6) as it:
        variant = await it.bench.variant(bfcl_seeds[type], it.author)
    check_form(variant)
    assert variant.type == type
    if type == "long_context":
        assert variant.state is not None and variant.state["long_context"] is True


@pytest.mark.parametrize("type", ["miss_func", "miss_param"])
async def test_what_can_be_served_without_what_is_missing_is_dropped(
    stub: Stub, type: TaskType
) -> None:
    async with later(stub, "servable", of=seed(type), calls="per_turn") as it:
        assert await it.bench.write(seed(type), it.author) == "query_verify_failed"
    # one other choice, where there is one
    assert 1 <= it.stages().count("adversarial_verification") <= 2
    assert it.bench.failures() == [("adversarial", "query_verify_failed")]


@pytest.mark.parametrize(
    ("calls", "habit", "asked"),
    [
        ("batched", "good", ["adversarial"]),
        ("per_turn", "good", ["adversarial", "adversarial_verification"]),
        # the second choice is the only one left, so nobody needs to choose it
        (
            "per_turn",
            "searches_elsewhere",
            ["adversarial", "adversarial_verification", "adversarial_verification"],
        ),
    ],
)
async def test_a_model_chooses_which_function_goes_and_another_one_if_it_is_not_missed(
    stub: Stub, two_to_choose_from: tuple[Task, list[str]], calls: str, habit: str, asked: list[str]
) -> None:
    root, choices = two_to_choose_from
    async with later(stub, habit, of=root, calls=calls) as it:
        variant = await it.bench.variant(root, it.author)
    check_form(variant)
    assert it.stages() == ["rewrite", *asked, "judge"]
    assert list(variant.later_tools.values()) == [(choices[habit == "searches_elsewhere"],)]


async def test_a_look_up_that_is_asked_for_by_itself_goes_with_what_it_prepares(stub: Stub) -> None:
    """Where it is needed earlier, and so cannot go, the draft is given up."""
    held: dict[str, set[str]] = {}
    for habit in ("good", "seeking"):
        async with later(stub, habit, of=seed("miss_func", 1)) as it:
            variant = await it.bench.variant(seed("miss_func", 1), it.author)
        held[habit] = {tool for tools in variant.later_tools.values() for tool in tools}
    assert held["seeking"] - held["good"] == {"find_event"} and held["good"] < held["seeking"]
    async with later(stub, "seeking", of=seed("miss_func")) as it:
        assert await it.bench.write(seed("miss_func"), it.author) == "no_pattern"
    (rejection,) = it.bench.rejections
    assert "search_mail can be done before" in rejection.evidence["detail"]


@pytest.fixture(scope="module")
def two_to_choose_from() -> tuple[Task, list[str]]:
    """A seed with two functions of which one is to be taken away, the first of them search_mail."""
    for task in desk_tasks(5, 120, 0):
        with contextlib.suppress(LookupError):
            if task.type != "miss_func":
                continue
            draft = asyncio.run(steady(task)).draft
            turn = next(turn for turn, calls in enumerate(draft.turns) if not calls)
            choices = task_types.removable(catalogue_for(load("desk")), draft, turn + 1)
            if len(choices) == 1 and choices[0][0] == "search_mail" and len(choices[0]) == 2:
                return task, choices[0]
    raise AssertionError("no seed has two functions to choose from")


@pytest.mark.parametrize(
    ("habit", "told"), [("telling", "must not say"), ("dropping", "must still say")]
)
async def test_a_value_left_open_is_gone_and_the_others_stay(
    stub: Stub, one_call_of_two_values: Task, habit: str, told: str
) -> None:
    root = one_call_of_two_values
    async with later(stub, habit, of=root) as it:
        assert await it.bench.write(root, it.author) == "query_verify_failed"
    (rejection,) = it.bench.rejections
    assert rejection.stage == "adversarial" and told in rejection.evidence["detail"]
    assert it.stages() == ["rewrite", *["adversarial"] * 3]


@pytest.fixture(scope="module")
def one_call_of_two_values() -> Task:
    """A miss_param seed whose variant has a call of two said values in the turn that is asked for
    in vain, alone."""
    for task in desk_tasks(5, 120, 0):
        with contextlib.suppress(LookupError):
            if task.type == "miss_param" and tells(
                asyncio.run(steady(task)).draft, values=2, calls=1
            ):
                return task
    raise AssertionError("no seed has such a call")


async def test_a_request_that_asks_for_more_than_needs_the_value_is_refused_and_told(
    stub: Stub,
) -> None:
    root = await two_requests()
    async with later(stub, "asking_at_once", of=root) as it:
        assert await it.bench.write(root, it.author) == "query_verify_failed"
    (rejection,) = it.bench.rejections
    assert (
        rejection.stage == "adversarial"
        and "can be made in the turn" in rejection.evidence["detail"]
    )
    async with later(stub, of=root) as it:
        check_form(await it.bench.variant(root, it.author))


async def two_requests() -> Task:
    """A miss_param seed whose variant asks for two things that do not depend on each other."""
    for task in desk_tasks(5, 120, 0):
        with contextlib.suppress(ComposeError, LookupError):
            if task.type == "miss_param":
                draft = (await steady(task)).draft
                turn = next(turn for turn, calls in enumerate(draft.turns) if not calls)
                if (
                    len(task_types.removable(catalogue_for(load("desk")), draft, turn + 1))
                    == len(draft.turns[turn + 1])
                    == 2
                ):
                    return task
    raise AssertionError("no seed asks for two things")


async def test_words_that_the_one_judge_objects_to_are_mended_in_the_turn_that_serves_them(
    stub: Stub,
) -> None:
    async with later(stub, "no_refusals", of=seed("miss_func")) as it:
        author = listening(it.author)
        await it.bench.write(seed("miss_func"), author)
    assert it.stages()[:3] == ["rewrite", "judge", "refine"]
    assert it.bench.failures()[0] == ("adversarial", "judge_rejected")
    ((_, draft, _, defect),) = author.arguments("reword")
    assert draft.turns[defect.turn] and not draft.turns[defect.turn - 1]
    assert f"in turn {defect.turn + 1}, as the turns are numbered here" in defect.reason


@pytest.mark.parametrize("later_turn", [0, 1])
async def test_what_is_wrong_with_a_vague_request_or_its_answer_is_told_to_whoever_leaves_it_open(
    stub: Stub, later_turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = list[int]()
    told = list[str]()
    ask = Asker.ask_keyed

    async def watched(
        self: Asker, rng: Any, question: Question[Any], *given: Any, **of: Any
    ) -> Any:
        told.extend([question.fields["choosing"]] if question.template == "miss_param" else [])
        return await ask(self, rng, question, *given, **of)

    monkeypatch.setattr(Asker, "ask_keyed", watched)

    async def judge(given: Any, draft: Any, task: Task, *rest: Any, **doubts: Any) -> Judgement:
        judged.append(task.calls.index(()) + later_turn)
        if len(judged) > 1:
            return Judgement("fine")
        return Judgement("odd", (Defect("query_fixable", "a torn sentence", judged[0]),))

    async with later(stub, of=seed("miss_param")) as it:
        variant = await it.bench.write(seed("miss_param"), listening(it.author, judge=judge))
    assert isinstance(variant, Task) and len(judged) == 2
    assert it.stages() == ["rewrite", "adversarial", "adversarial"]
    assert ["a torn sentence" in each for each in told] == [False, True]


@pytest.mark.parametrize("type", ["miss_func", "miss_param"])
async def test_a_draft_that_its_form_cannot_be_made_of_is_told_before_it_is_worded(
    stub: Stub, type: TaskType
) -> None:
    stages = await steady(seed(type))
    given = stages.given
    draft = stages.draft
    turn = next(turn for turn, calls in enumerate(draft.turns) if not calls) + 1
    if type == "miss_func":  # everything that the turn needs is needed before, too
        poor = replace(draft, turns=((*draft.turns[0], *draft.turns[turn]), *draft.turns[1:]))
    else:  # nothing that the turn needs is the user's own
        silent = tuple(replace(bound, slots={}) for bound in draft.turns[turn])
        poor = replace(draft, turns=(*draft.turns[:turn], silent, *draft.turns[turn + 1 :]))
    async with later(stub, of=seed(type)) as it:
        forming.check_form(it.author, given, draft)
        with pytest.raises(ComposeError) as caught:
            forming.check_form(it.author, given, poor)
    assert (caught.value.type, caught.value.turn) == ("no_pattern", turn) and it.stages() == []


async def test_a_world_that_cannot_be_made_longer_is_told_before_it_is_worded(stub: Stub) -> None:
    stages = await steady(seed("long_context"))
    async with later(stub, of=seed("long_context")) as it:
        forming.check_form(it.author, stages.given, stages.draft)
        it.author.catalogue = replace(
            it.author.catalogue, pad=lambda draft, spoken, rng: dict(draft.state)
        )
        with pytest.raises(ComposeError, match="cannot be made longer") as caught:
            forming.check_form(it.author, stages.given, stages.draft)
    assert caught.value.type == "no_pattern" and it.stages() == []


async def test_a_function_that_two_others_replace_is_not_taken_away(stub: Stub) -> None:
    """Moving money is spending it here and getting it there; the balance of an account is nobody
    else's to tell."""
    given = assignment(seed("miss_func"))
    desk = load("desk")
    state = {
        "today": "monday",
        "ledger": {"accounts": {"cash": 500, "office": 200}, "bills": {}, "next": 1},
    }
    moving = Call("transfer_money", {"amount": 80, "source": "cash", "target": "office"})
    looking = Call("get_balance", {"account": "cash"})

    def draft(call: Call) -> Draft:
        bound = BoundCall(
            call,
            desk.reset(state).call(call),
            {name: Flow("user") for name in call.arguments},
            call.name,
        )
        plan = Plan((PlannedTurn((), ()), PlannedTurn((call.name,), (call.name,))))
        return Draft(plan, state, ((), (bound,)))

    async with later(stub, of=seed("miss_func")) as it:
        with pytest.raises(ComposeError, match="can be done without transfer_money") as caught:
            forming.check_form(it.author, given, draft(moving))
        assert caught.value.functions == ("transfer_money",), "or the same is planned again"
        forming.check_form(it.author, given, draft(looking))
    assert it.stages() == []


async def test_calls_that_do_not_depend_on_each_other_as_the_root_s_are_told_before_they_are_worded(
    stub: Stub,
) -> None:
    stages = await steady(seed("base"))
    alone = replace(
        stages.draft,
        turns=tuple(
            tuple(replace(bound, result=Result("done", "done")) for bound in calls)
            for calls in stages.draft.turns
        ),
    )
    async with later(stub, of=seed("base")) as it:
        forming.check_form(it.author, stages.given, stages.draft)
        with pytest.raises(ComposeError, match="results go nowhere") as caught:
            forming.check_form(it.author, stages.given, alone)
        free = replace(stages.given, limits=Gates(profile=False))
        forming.check_form(it.author, free, alone)
    assert caught.value.type == "conversation_construct_failed" and it.stages() == []


async def test_what_takes_up_what_a_missing_function_makes_is_held_out_beside_it(
    stub: Stub,
) -> None:
    """To a reader it would look as if it could make it as well."""
    given = assignment(seed("miss_func"))
    desk = load("desk")
    file = {"folder": "old", "text": "a note", "locked": False, "shared": []}
    state = {"today": "monday", "files": {"memo": file, "plan": file}}
    writing = Call("write_file", {"file": "plan", "text": "tidy up on friday"})

    def locking(file: str) -> Call:
        return Call("lock_file", {"file": file})

    def at(*turns: tuple[Call, ...]) -> forming.PartialTask:
        world = desk.reset(state)
        user = {name: Flow("user") for name in ("file", "text")}
        bound = [
            [
                BoundCall(
                    call,
                    world.call(call),
                    {name: user[name] for name in call.arguments},
                    "write_and_lock" if len(calls) > 1 else call.name,
                )
                for call in calls
            ]
            for calls in turns
        ]
        tools = [tuple(call.name for call in calls) for calls in turns]
        plan = Plan(tuple(PlannedTurn(names, names) for names in tools))
        draft = Draft(plan, state, tuple(map(tuple, bound)))
        texts = ("Write 'tidy up on friday' into plan and lock it.",) * len(turns)
        return forming.PartialTask(
            it.author, given, draft, "miss_func", texts, len(turns) - 2, tuple(desk.tools())
        )

    async with later(stub, of=seed("miss_func")) as it:
        (gap,) = at((), (writing, locking("plan"))).removable_functions()
        assert gap.tools == ("write_file", "lock_file")
        before = (locking("memo"),)
        with pytest.raises(ComposeError, match="can be done without write_file"):
            at(before, (), (writing, locking("plan"))).removable_functions()


async def test_a_form_is_tried_with_what_a_user_is_likely_to_say(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = await steady(seed("miss_func"))
    requests = list[str]()
    removable = forming.PartialTask.removable_functions

    def listening(partial: forming.PartialTask) -> list[forming.Gap]:
        requests.append(partial.request)
        return removable(partial)

    monkeypatch.setattr(forming.PartialTask, "removable_functions", listening)
    async with later(stub, of=seed("miss_func")) as it:
        forming.check_form(it.author, stages.given, stages.draft)
        turn = next(turn for turn, calls in enumerate(stages.draft.turns) if not calls) + 1
        names = {bound.recipe for bound in stages.draft.turns[turn]}
        phrases = [it.author.catalogue.recipes[name].phrases[0] for name in names]
    assert all(phrase.split(" {")[0].split("'")[0] in requests[0] for phrase in phrases)
    assert "{" not in requests[0]
