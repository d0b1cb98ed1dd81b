"""Worlds drawn by chance, from a random seed that nobody has seen: are they sound, and do their
witnesses hold?

Claim: each witness passes all checks of its scenario, and at least 99 % of witnesses without one of
their calls fail one. Anchor: the scenarios as they were drawn, before any was dropped. Command:
`python -m bench.generated_worlds` (`--seed N` draws those of another time).
"""

from __future__ import annotations

import secrets
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.figures import Figure, run
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.family.environments.checking.scenarios import Scenario, played, reasons, validate
from rods.family.environments.checking.worlds import check_world
from rods.family.environments.procedural.operations import assembled, plan
from rods.family.environments.procedural.scenarios import CONFINED, STATES, draw_scenario
from rods.family.environments.procedural.skeletons import draw_skeleton, draw_state

# worlds, and scenarios of each
FULL = (200, 5)
QUICK = (8, 5)
REACH = 0.99


def measure(quick: bool, seed: str = "") -> list[Figure]:
    """Shares of worlds and scenarios that pass, of witnesses that hold, and of those without a call
    that do not."""
    random_seed = int(seed) if seed else secrets.randbelow(1_000_000_000)
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
    return figures


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
    run(measure, seed="the random seed, a whole number; one that nobody has seen by default")
