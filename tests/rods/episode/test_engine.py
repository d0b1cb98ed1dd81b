"""An episode turns whatever a policy writes into observations and named ends, never into an
exception."""

import asyncio
from types import SimpleNamespace

import orjson
import pytest

from rods.calls import Call
from rods.dialects import load as load_dialect
from rods.environments.base import Result, reference
from rods.episode.drivers import Job, run_episode, run_lockstep
from rods.episode.engine import Reply
from rods.episode.goals import GroundTruth, SharedGroundTruth
from rods.episode.rewards import score
from rods.errors import InfrastructureError
from rods.tasks import RETURN_SENTENCE, Task
from tests.environments import load

TAGS = load_dialect("tags")
WRITE = Call("write", {"title": "plan", "body": "go north"})
READ = Call("read", {"note_id": 101})
COUNT = Call("count", {"name": "steps", "amount": 2})


@pytest.fixture(scope="module")
def toy():
    return load("tests.rods.toy_environment:environment")


@pytest.fixture(scope="module")
def task(toy):
    """Turn 0 writes and reads; turn 1 wants `count`, which is missing; turn 2 brings it."""
    return Task(
        environment=reference(toy),
        type="miss_func",
        script=("Note the plan and show it.", "Count two steps.", RETURN_SENTENCE),
        calls=((WRITE, READ), (), (COUNT,)),
        tools=("write", "read", "titles", "count"),
        later_tools={2: ("count",)},
    )


def play(toy, task, replies, max_steps=20, visible_only=True):
    """Runs the episode against a fixed list of replies; also returns how often text was asked
    for."""
    asked = []

    def complete(waiting):
        asked.extend(waiting)
        reply = replies[len(asked) - 1]
        return [reply if isinstance(reply, Reply) else Reply(reply)]

    job = Job(
        task, toy, TAGS, GroundTruth(toy, task), max_steps=max_steps, visible_only=visible_only
    )
    return run_lockstep([job], complete)[0], asked


def calls(*these):
    return TAGS.write(these)


DONE = TAGS.answer("done")


def test_whoever_is_asked_for_text_learns_which_turn_it_is(toy, task):
    """In each turn of its own, whatever the messages look like."""
    replies = [calls(WRITE), DONE, DONE, calls(COUNT), "no tags at all", DONE]
    assert [need.turn for _, need in play(toy, task, replies)[1]] == [0, 0, 1, 2, 2, 2]


def test_ground_truth_earns_everything(toy, task):
    trace, _ = play(toy, task, [calls(WRITE, READ), DONE, DONE, calls(COUNT), DONE])
    assert (trace.end, trace.resolved, trace.binary) == ("finished", 3, 1)


def test_the_missing_tool_is_hidden_until_its_turn_and_documented_then(toy, task):
    trace, asked = play(
        toy, task, [calls(WRITE, READ), DONE, calls(COUNT), DONE, calls(COUNT), DONE]
    )
    early = trace.turns[1].steps[0].results[0]
    late = trace.turns[2].steps[0].results[0]
    assert early.error == "unknown_tool" and late.error is None
    assert not trace.turns[1].verdict.resolved  # calling where no call is right
    assert trace.turns[2].verdict.resolved  # the refused call left no trace in the world
    system = asked[0][1].messages[0].content
    last = trace.messages[-4].content
    assert '"count"' not in system and RETURN_SENTENCE in last and '"count"' in last


def test_where_hidden_tools_are_callable_the_environment_answers_every_call(toy, task):
    replies = [calls(WRITE, READ), DONE, calls(COUNT), DONE, calls(Call("nothing")), DONE]
    trace, _ = play(toy, task, replies, visible_only=False)
    assert trace.turns[1].steps[0].results[0].error is None
    unknown = toy.reset(task.state).call(Call("nothing"))
    assert trace.turns[2].steps[0].results[0] == unknown


def test_each_turn_is_judged_by_state_and_by_results(toy, task):
    unread, _ = play(toy, task, [calls(WRITE), DONE, DONE, calls(COUNT), DONE])
    assert (unread.turns[0].verdict.state, unread.turns[0].verdict.response) == (True, False)
    extra, _ = play(toy, task, [calls(WRITE, READ, WRITE), DONE, DONE, calls(COUNT), DONE])
    assert (extra.turns[0].verdict.state, extra.turns[0].verdict.response) == (False, True)
    # only the no-call turn: the extra note stays in the world
    assert extra.resolved == 1 and extra.expected == 3


def test_a_turn_with_ground_truth_needs_an_attempt(toy):
    repeated = Task(
        reference(toy),
        "base",
        ("Show titles.", "Again."),
        ((Call("titles"),), (Call("titles"),)),
        ("titles",),
    )
    trace, _ = play(toy, repeated, [calls(Call("titles"), Call("titles")), DONE, DONE])
    assert [turn.verdict.resolved for turn in trace.turns] == [True, False]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("no tags at all", None),
        (calls(Call("read", {"note_id": "one"})), "bad_arguments"),
        (calls(Call("read", {})), "bad_arguments"),
        (calls(Call("read", {"note_id": 999})), "tool"),
        (calls(Call("fly", {})), "unknown_tool"),
        ("<tool_call>[{}]</tool_call>", None),
        ("\ud800<tool_call>\udfff", None),
    ],
)
def test_mistakes_become_observations_and_the_turn_goes_on(toy, task, reply, error):
    trace, asked = play(toy, task, [reply, calls(WRITE, READ), DONE, DONE, calls(COUNT), DONE])
    assert trace.binary == 1
    first = trace.turns[0].steps[0]
    assert (first.error is not None) == (error is None)
    assert [result.error for result in first.results] == ([error] if error else [])
    assert "tool_response" in asked[1][1].messages[-1].content  # the policy was told


def test_runaway_steps_end_with_the_step_limit(toy, task):
    trace, asked = play(toy, task, [calls(Call("titles"))] * 3, max_steps=3)
    assert (trace.end, len(trace.turns), trace.turns[0].verdict, len(asked)) == (
        "step_limit",
        1,
        None,
        3,
    )
    assert trace.resolved == 0 and trace.expected == 3


@pytest.mark.parametrize("end", ["length", "context", "infrastructure"])
def test_a_reply_that_was_cut_or_lost_ends_the_episode_under_that_name(toy, task, end):
    trace, _ = play(toy, task, [calls(WRITE, READ), DONE, Reply("<tool_c", end)])
    assert trace.end == end and trace.resolved == 1 and len(trace.turns) == 2
    # of three replies one is malformed, and no call of it counts as wrong
    if end != "infrastructure":
        assert (
            score(trace, "format").reward
            == score(trace, "format_codes").reward
            == pytest.approx(2 / 3 + 1)
        )


def test_a_broken_world_is_infrastructure_not_failure(toy, task):
    class Broken:
        def __init__(self, inside):
            self.inside = inside

        def __getattr__(self, name):
            return getattr(self.inside, name)

        def reset(self, state):
            instance = self.inside.reset(state)
            instance.call = self.fail
            return instance

        def fail(self, call):
            raise InfrastructureError("the worker died")

    job = Job(task, Broken(toy), TAGS, GroundTruth(toy, task))
    trace = run_lockstep([job], lambda waiting: [Reply(calls(WRITE))])[0]
    assert trace.end == "infrastructure"


@pytest.mark.parametrize("place", ["reset", "refused", "verdict"])
def test_a_world_that_is_lost_ends_its_own_episode_alone(toy, task, place):
    def fail(*given):
        raise (
            ValueError("no such part")
            if place == "refused"
            else InfrastructureError("the worker died")
        )

    sound = Job(task, toy, TAGS, GroundTruth(toy, task))
    lost = (
        toy
        if place == "verdict"
        else SimpleNamespace(tools=toy.tools, features=toy.features, reset=fail)
    )
    goal = SimpleNamespace(verdict=fail) if place == "verdict" else sound.goal
    jobs = [Job(task, lost, TAGS, goal), sound]
    together = run_lockstep(jobs, lambda waiting: [Reply(DONE) for _ in waiting])
    assert [trace.end for trace in together] == ["infrastructure", "finished"]

    async def complete(need):
        return Reply(DONE)

    assert asyncio.run(run_episode(jobs[0], complete)) == together[0]


@pytest.mark.parametrize("kind", ["infrastructure", "timeout"])
def test_a_ground_truth_that_could_not_be_run_blames_no_rollout(toy, task, kind):
    """What the machinery says must never become what a policy has to say."""
    made = []

    class Stuck:
        def call(self, call):
            return Result("no answer in time", error=kind)

        def fork(self):
            return self

    def reset(state):
        made.append(1)
        return Stuck()

    stuck = SimpleNamespace(reset=reset, tools=toy.tools, features=toy.features)
    with pytest.raises(InfrastructureError, match=f"{task.id} could not be run: no answer in time"):
        GroundTruth(stuck, task)
    made.clear()
    broken = SharedGroundTruth(stuck, task)
    jobs = [Job(task, toy, TAGS, goal) for goal in (broken, broken, SharedGroundTruth(toy, task))]
    traces = run_lockstep(jobs, lambda waiting: [Reply(DONE) for _ in waiting])
    assert [trace.end for trace in traces] == ["infrastructure", "infrastructure", "finished"]
    assert len(made) == 1  # it is not tried again and again within a batch
    assert (
        traces[2]
        == run_lockstep([Job(task, toy, TAGS, GroundTruth(toy, task))], lambda _: [Reply(DONE)])[0]
    )


def test_fresh_marks_what_is_new_since_the_last_reply(toy, task):
    _, asked = play(toy, task, [calls(WRITE, READ), DONE, DONE, calls(COUNT), DONE])
    fresh = [[message.role for message in need.messages[need.fresh :]] for _, need in asked]
    assert fresh == [["system", "user"], ["user"], ["user"], ["user"], ["user"]]


def test_lockstep_and_asyncio_give_the_same_traces_and_worlds_are_not_shared(toy, task):
    scripts = [
        [calls(WRITE, READ), DONE, DONE, calls(COUNT), DONE],
        [calls(WRITE), DONE, calls(COUNT), DONE, calls(COUNT), DONE],
        [DONE, DONE, DONE],
    ]
    goal = GroundTruth(toy, task)
    jobs = [Job(task, toy, TAGS, goal) for _ in scripts]
    positions = [0] * len(scripts)

    def next_reply(index):
        positions[index] += 1
        return Reply(scripts[index][positions[index] - 1])

    together = run_lockstep(jobs, lambda waiting: [next_reply(index) for index, _ in waiting])

    async def alone(index):
        replies = iter(scripts[index])

        async def complete(need):
            await asyncio.sleep(0)
            return Reply(next(replies))

        return await run_episode(jobs[index], complete)

    async def all_alone():
        return await asyncio.gather(*(alone(index) for index in range(len(jobs))))

    assert asyncio.run(all_alone()) == together
    assert [trace.resolved for trace in together] == [3, 1, 1]


@pytest.mark.parametrize("name", ["compact", "tags", "hermes"])
def test_lone_surrogates_of_a_reply_stand_in_no_call_and_no_trace(name):
    text = load_dialect(name).write([WRITE])
    for place in range(len(text) + 1):
        reply = Reply(f"{text[:place]}\udc80{text[place:]}")
        parsed = load_dialect(name).parse(reply.text)
        orjson.dumps([reply.text, parsed.error, [[c.name, c.arguments] for c in parsed.calls]])
