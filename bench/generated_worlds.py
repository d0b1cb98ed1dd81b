"""Worlds drawn by chance, from a random seed that nobody has seen: are they sound, and do their
witnesses hold?

Claim: each witness passes all checks of its scenario, and at least 99 % of witnesses without one of
their calls fail one. Anchor: the scenarios as they were drawn, before any was dropped. Of worlds
with rules, as a writer would write them, all sound ones pass, and at least 95 % of the faults that
are planted in one tool are told with rule and tool. Command: `python -m bench.generated_worlds`
(`--seed N` draws those of another time; `--only rules` measures these alone, `--only hand` those
that were written by hand).
"""

from __future__ import annotations

import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, run
from bench.fixtures import rule_worlds
from bench.fixtures.planted_rules import planted, written
from rods.canonical import JsonObject
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.family.environments.checking.scenarios import Scenario, played, reasons, validate
from rods.family.environments.checking.worlds import check_world
from rods.family.environments.procedural.operations import assembled, plan
from rods.family.environments.procedural.scenarios import CONFINED, STATES, draw_scenario
from rods.family.environments.procedural.skeletons import draw_skeleton, draw_state
from rods.family.environments.programs import WorldProgram, placed
from rods.worlds.checking import Fault

# worlds, and scenarios of each
FULL = (200, 5)
QUICK = (8, 5)
REACH = 0.99
# worlds with rules, and how often each fault is planted in them
FULL_RULES = (15, 2)
QUICK_RULES = (3, 1)
NAMED = 0.95


def measure(quick: bool, seed: str = "", only: str = "") -> list[Figure]:
    """Shares of worlds and scenarios that pass, of witnesses that hold, and of those without a call
    that do not."""
    random_seed = int(seed) if seed else secrets.randbelow(1_000_000_000)
    if only == "hand":
        return by_hand(quick, random_seed)
    rules = with_rules(quick, random_seed)
    if only == "rules":
        return rules
    count, each = QUICK if quick else FULL
    sound = 0
    sources = set()
    tools = []
    drops = Counter[str]()
    tally: Counter[str] = Counter()
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            began = time.perf_counter()
            skeleton = draw_skeleton(random_seed, number)
            place = f"{folder}/{addressed.keep(assembled(skeleton), Path(folder))}"
            sources.add(place)
            states = [
                draw_state(skeleton, random_seed, "control", state) for state in range(STATES)
            ]
            with Environments(CONFINED) as environments:
                report = check_world(
                    place, plan(skeleton), states, environments, random_seed=random_seed
                )
                seconds.append(time.perf_counter() - began)
                if not report.ok:
                    drops.update({f"world: {fault.control}" for fault in report.faults})
                    continue
                sound += 1
                environment = environments.load(place)
                tools.append(len(environment.tools()))
                for at in range(each):
                    tally["drawn"] += 1
                    scenario = draw_scenario(skeleton, environment, random_seed, at)
                    if scenario is None:
                        drops["drawing"] += 1
                        continue
                    failed = list(reasons(validate(environment, scenario, random_seed)))
                    drops.update(failed[:1])
                    if set(failed) <= {"needless"}:
                        tally["tried before"] += len(scenario.witness)
                        tally["needless before"] += len(failed)  # the first of them alone is told
                    if not failed:
                        tally["kept"] += 1
                        tally += _again(environment, scenario)
    worlds = f"{count} worlds, random seed {random_seed}"
    left_out = tally["tried look-up"] + tally["tried change"]
    broke = tally["broke look-up"] + tally["broke change"]
    before = 1 - tally["needless before"] / max(tally["tried before"], 1)
    figures = [
        Figure(f"{worlds}: pass all controls", sound / count, "share", reach=1.0),
        Figure("different sources among them", float(len(sources)), "worlds"),
        Figure("tools a world, median", float(statistics.median(tools)), "tools", "003 Table "
                                                                                  "2", 18.0),
        Figure("a world drawn and controlled, median", statistics.median(seconds), "s"),
        Figure(f"of {tally['drawn']} scenarios kept", tally["kept"] / tally["drawn"], "share"),
        Figure(f"of {tally['kept']} witnesses, pass all "
               f"checks", tally["passes"] / tally["kept"], "share", reach=1.0),
        Figure(
            f"of {left_out} witnesses without one call, fail a check", broke / left_out, "share",
            "before dropping", before, REACH,
        ),
    ]  # fmt: skip
    for kind in ("change", "look-up"):
        claim = f"… without a {kind}, {tally[f'tried {kind}']} of them"
        figures.append(Figure(claim, tally[f"broke {kind}"] / tally[f"tried {kind}"], "share"))
    figures += [
        Figure(f"dropped by {name}", float(times), "scenarios")
        for name, times in drops.most_common()
    ]
    return [*figures, *rules]


def with_rules(quick: bool, random_seed: int) -> list[Figure]:
    """Shares of sound worlds with rules that pass, and of planted faults that are found."""
    count, times = QUICK_RULES if quick else FULL_RULES
    passed = 0
    planting = Counter[str]()
    tally = Counter[tuple[str, bool]]()
    for number in range(count):
        skeleton = draw_skeleton(random_seed, number)
        states = [draw_state(skeleton, random_seed, "control", state) for state in range(STATES)]

        def faults(program: WorldProgram, states: Sequence[JsonObject] = states) -> list[Fault]:
            planned = {tool.name: list(tool.takes) for tool in program.plan.tools}
            with tempfile.TemporaryDirectory() as folder, Environments(CONFINED) as environments:
                name = placed(program.source(), Path(folder))
                report = check_world(name, planned, states, environments, random_seed=random_seed)
            return list(report.faults)

        sound = faults(written(skeleton))
        passed += not sound
        print(f"{number} {skeleton.topic}: {sound or 'sound'}", file=sys.stderr)
        for kind, fault, tool, program in planted(skeleton):
            if planting[fault] < times:
                planting[fault] += 1
                found = faults(program)
                named = any((each.control, each.where) == ("rules", tool) for each in found)
                tally[kind, named] += 1
                print(f"{number} {kind}: {fault} in {tool}: {named or found}", file=sys.stderr)
    kinds = sorted({kind for kind, _ in tally})
    every = sum(tally.values())
    share = sum(tally[kind, True] for kind in kinds) / max(every, 1)
    return [
        Figure(f"{count} sound worlds with rules: pass", passed / count, "share", reach=1.0),
        Figure(f"{every} planted faults: told with rule and tool", share, "share", reach=NAMED),
        *(
            Figure(
                f"… {kind}, {tally[kind, True] + tally[kind, False]} of them",
                tally[kind, True] / (tally[kind, True] + tally[kind, False]),
                "share",
            )
            for kind in kinds
        ),
    ]


def by_hand(quick: bool, random_seed: int) -> list[Figure]:
    """The same of worlds that were written by hand, with the faults of their tools."""
    tally = Counter[str]()

    def faults(name: str, source: str) -> list[Fault]:
        with tempfile.TemporaryDirectory() as folder, Environments(CONFINED) as environments:
            return list(
                check_world(
                    placed(source, Path(folder)),
                    rule_worlds.plan(source),
                    rule_worlds.states(name),
                    environments,
                    random_seed=random_seed,
                ).faults
            )

    for name in rule_worlds.NAMES[: 1 if quick else None]:
        for what, source in rule_worlds.sound(name):
            found = faults(name, source)
            tally["sound"] += 1
            tally["passed"] += not found
            print(f"{name}, {what}: {found or 'sound'}", file=sys.stderr)
        for kind, tool, what, source in rule_worlds.planted(name):
            found = faults(name, source)
            named = any((each.control, each.where) == ("rules", tool) for each in found)
            tally["planted"] += 1
            tally["named"] += named
            print(f"{name}, {kind} in {tool}, {what}: {named or found}", file=sys.stderr)
    return [
        Figure(
            f"{tally['sound']} sound worlds by hand: pass",
            tally["passed"] / tally["sound"],
            "share",
            reach=1.0,
        ),
        Figure(
            f"{tally['planted']} faults in them: told with rule and tool",
            tally["named"] / tally["planted"],
            "share",
            reach=NAMED,
        ),
    ]


def _again(environment: Environment, scenario: Scenario) -> Counter[str]:
    """The witness once more, whole and without each of its calls, in worlds made anew, apart from
    the controls."""
    found: Counter[str] = Counter()
    asked = (*scenario.checks, *scenario.guards)
    for left_out in (None, *range(len(scenario.witness))):
        world = environment.reset(dict(scenario.state))
        played(world, scenario.witness, without=left_out)
        passes = all(holds(world, check) for check in asked)
        if left_out is None:
            found["passes"] += passes
            continue
        reads = environment.tools()[scenario.witness[left_out].call.name].reads
        kind = "look-up" if reads else "change"
        found[f"tried {kind}"] += 1
        found[f"broke {kind}"] += not passes
    return found


if __name__ == "__main__":
    run(
        measure,
        seed="the random seed, a whole number; one that nobody has seen by default",
        only='"rules": worlds with rules and faults planted in them; "hand": those written by hand',
    )
