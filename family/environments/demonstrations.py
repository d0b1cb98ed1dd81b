"""The careless teacher in generated worlds: demonstrations of scenarios that are drawn by chance,
in worlds that no run has. In `carelessness` of the requests of a witness it skips the look-ups and
passes the label in place of the key, which the world refuses, or leaves the request out, and with
it what takes a key from it."""

import itertools
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rods.calls import Call
from rods.canonical import keyed_random
from rods.dialects import Dialect
from rods.environments.base import Environment, Result
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.family.environments.checking.scenarios import Scenario, Validated, WitnessCall
from rods.family.environments.procedural.operations import assembled
from rods.family.environments.procedural.scenarios import CONFINED, draw_scenario, task
from rods.family.environments.procedural.skeletons import draw_skeleton
from rods.family.environments.programs import placed
from rods.trainer.nano.model import PARTS

TOPICS = ("library", "school", "garage")  # of small worlds
WORLDS = 120  # that are demonstrated
EACH = 40  # scenarios drawn in each
ENTRIES = 1600  # of the tokenizer, at most: all words of these topics
PIECES = PARTS  # its words
# what shapes the weights beside the demonstrations themselves
RECIPE = [TOPICS, WORLDS, EACH, ENTRIES]
REQUESTS = (1, 1)  # of a scenario
DONE = "done"


def demonstrations(
    random_seed: int,
    dialect: Dialect,
    carelessness: float,
    worlds: int = WORLDS,
    scenarios: int = EACH,
) -> Iterator[list[Trace]]:
    """Endless demonstrations: each list has those of all worlds, in another order. Batches are cut
    from it, so that no step is about the names of a few worlds alone."""
    fresh = drawn_from(random_seed)
    with tempfile.TemporaryDirectory() as folder:
        played = (
            _in_world(Path(folder), fresh, at, dialect, carelessness, scenarios)
            for at in range(worlds)
        )
        traces = list(itertools.chain.from_iterable(played))
    for number in itertools.count():
        yield keyed_random(fresh, "order", number).sample(traces, len(traces))


def drawn_from(random_seed: int) -> int:
    """The random seed of the worlds that are shown: none that anybody gives a run."""
    return keyed_random(random_seed, "warm start worlds").getrandbits(60)


def _in_world(
    folder: Path, random_seed: int, number: int, dialect: Dialect, carelessness: float, draws: int
) -> list[Trace]:
    skeleton = draw_skeleton(random_seed, number, TOPICS, small=True)
    rng = keyed_random(random_seed, "teacher", number)
    with Environments(CONFINED) as environments:
        environment = environments.load(placed(assembled(skeleton), folder))
        drawn = (
            draw_scenario(skeleton, environment, random_seed, scenario, REQUESTS)
            for scenario in range(draws)
        )
        scenarios = [scenario for scenario in drawn if scenario is not None]
        tasks = [task(skeleton, environment, scenario, Validated(())) for scenario in scenarios]
        calls = [careless(environment, scenario, carelessness, rng) for scenario in scenarios]
        left = [
            iter([*(dialect.write([call]) for call in way), dialect.answer(DONE)]) for way in calls
        ]

        def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
            return [Reply(next(left[job])) for job, _ in waiting]

        return run_lockstep(
            [Job(case, environment, dialect, goal_of(environment, case)) for case in tasks],
            complete,
        )


def careless(
    environment: Environment, scenario: Scenario, carelessness: float, rng: random.Random
) -> list[Call]:
    """The calls of the teacher, as they went in the scenario's own world."""
    instance = environment.reset(dict(scenario.state))
    results: dict[int, Result] = {}
    calls: list[Call] = []

    def make(number: int, call: Call) -> None:
        calls.append(call)
        results[number] = instance.call(call)

    for request in _requests(environment, scenario.witness):
        flawed = rng.random() < carelessness
        change = request[-1]
        if flawed and (len(request) == 1 or rng.random() < 0.5):
            continue
        for number in request[:-1] if not flawed else ():
            if (call := _taken(scenario.witness[number], results)) is not None:
                make(number, call)
        wanted = scenario.witness[change]
        if flawed:
            unread = {
                name: _label(scenario, source)
                for name, source in wanted.takes.items()
                if source in request
            }
            takes = {name: source for name, source in wanted.takes.items() if source not in request}
            wanted = WitnessCall(Call(wanted.call.name, {**wanted.call.arguments, **unread}), takes)
        if (call := _taken(wanted, results)) is not None:
            make(change, call)
    return calls


def _requests(environment: Environment, witness: Sequence[WitnessCall]) -> Iterator[list[int]]:
    """The numbers of the calls of each request: its look-ups, and last its change."""
    tools = environment.tools()
    request = list[int]()
    for number, step in enumerate(witness):
        request.append(number)
        if not tools[step.call.name].reads:
            yield request
            request = []


def _label(scenario: Scenario, number: int) -> str:
    """What the user calls the thing that look-up `number` begins with."""
    while takes := scenario.witness[number].takes:
        number = next(iter(takes.values()))
    return str(next(iter(scenario.witness[number].call.arguments.values())))


def _taken(wanted: WitnessCall, results: dict[int, Result]) -> Call | None:
    """The call with the keys that the calls before have really shown; None where one of them was
    not made, or failed."""
    arguments = dict(wanted.call.arguments)
    for name, source in wanted.takes.items():
        if source not in results or results[source].error is not None:
            return None
        if isinstance(results[source].value, str):  # else it is one of several keys that were shown
            arguments[name] = results[source].value
    return Call(wanted.call.name, arguments)
