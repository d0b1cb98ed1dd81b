"""Controls of a generated world: is it fit to draw tasks in? (003 §3.3 asks models that; these ask the world.)

First its syntax tree is looked at (`programs`), and only what passes is run, confined. Then it is held to what every
environment promises (`environments`), and to more: that it offers what was planned; that reading changes nothing and a
change that succeeds changes something; that it refuses instead of raising, and before it has changed anything; that
every tool succeeds once; that checks answer true or false; that no call runs away. Each fault names its control.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rods.analysis.sampling import Sampler
from rods.analysis.schemas import Checker, tool_faults
from rods.canonical import keyed_random
from rods.environments import addressed
from rods.environments.base import Tool, checks
from rods.environments.loading import Environments
from rods.errors import RodsError
from worlds.checking.environments import Probe, probe_state, script
from worlds.checking.programs import program_faults
from worlds.checking.report import CheckReport, Fault
from worlds.checking.runaway import LONGEST, attempts

ROUNDS = 6  # sampled calls a tool in every state
REACH = 100  # further calls of a tool that has not succeeded yet


def check_world(
    name: str,
    plan: Mapping[str, Sequence[str]],
    states: Sequence[Mapping[str, Any]],
    environments: Environments,
    *,
    random_seed: int = 0,
    rounds: int = ROUNDS,
) -> CheckReport:
    """Controls the world called `name` (`rods.environments.addressed`), which was to have the tools and checks of
    `plan` (names, and their parameters in order), in its empty state and in `states`, where all of its tools are to be
    of use. Raises UserError when its file is not there, or is another one."""
    file = name.rpartition(":")[0]
    if faults := program_faults(addressed.source_of(name, environments.folders), file):
        return CheckReport(name, tuple(faults))
    try:
        environment = environments.load(name)
        offered = {**environment.tools(), **checks(environment)}
    except RodsError as error:
        return CheckReport(name, (Fault(file, "", str(error), "correct it", "loads"),))
    if not name.endswith(environment.name) or addressed.address_of(environment.name) is None:
        what = f"calls itself {environment.name}"
        return CheckReport(name, (Fault(file, "name", what, "name it by its address", "loads"),))
    probe = Probe(environment)
    probe.patience = math.inf  # its process has a deadline of its own
    for tool_name, what, remedy in _signatures(offered, plan):
        probe.fault(tool_name, "", what, remedy, "signature")
    for tool_name, tool in offered.items():
        for field, what, remedy in tool_faults(tool_name, tool):
            probe.fault(tool_name, field, what, remedy, "documents")
        if tool.reads is None:
            remedy = "write reads=True, or reads=False"
            probe.fault(tool_name, "reads", "does not say whether it changes the state", remedy, "documents")
    if probe.faults:
        return CheckReport(name, tuple(probe.faults))
    probe.results = {each: Checker(tool.result) for each, tool in offered.items() if tool.result is not None}
    for number, state in enumerate((None, *states)):
        probe.control = "reset"
        with probe.guarded(name, "reset"):
            calls = script(probe, state, random_seed=random_seed + number, rounds=rounds)
            probe_state(probe, state, calls)
    for state in states:
        with probe.guarded(name):
            _checks(probe, state, random_seed)
            _reach(probe, state, random_seed)
    for tool_name in sorted(set(environment.tools()) - probe.reached - probe.hung):
        probe.fault(tool_name, "", "never answered without an error", "give it something to do, or drop it", "reach")
    with probe.guarded(name):
        _runaways(probe)
    facts = {"tools": len(environment.tools()), "checks": len(checks(environment)), "calls": probe.calls}
    return CheckReport(name, tuple(probe.faults), tuple(probe.notes), facts)


def _signatures(offered: Mapping[str, Tool], plan: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str]]:
    """(tool, what, remedy) for everything that is not as planned."""
    for name in sorted({*offered, *plan}):
        if name not in plan:
            yield name, "was not planned", "plan it, or take it out"
        elif name not in offered:
            yield name, "was planned, and is not there", "write it"
        elif list(offered[name].parameter_names) != list(plan[name]):
            what = f"takes ({', '.join(offered[name].parameter_names)}), but was to take ({', '.join(plan[name])})"
            yield name, what, "take what was planned, in that order"


def _checks(probe: Probe, state: Mapping[str, Any], random_seed: int) -> None:
    """Checks answer true or false, and change nothing (else the world itself raises)."""
    probe.control = "checks"
    sampler = Sampler(keyed_random(random_seed, "checks", probe.environment.name))
    sampler.learn("", state)
    instance = probe.reset(copy.deepcopy(state))
    for check in checks(probe.environment).values():
        for _ in range(3):
            call = sampler.call(check)
            try:
                result = instance.call(call)
            except RodsError as error:
                control = "pure_checks" if "changed the state" in str(error) else "errors"
                probe.fault(check.name, "", f"raised on {call}: {str(error)[:200]}", "answer true or false", control)
                break
            if result.error is None and type(result.value) is not bool:
                probe.fault(check.name, "", f"answered {result.text[:80]} to {call}", "answer true or false")


def _reach(probe: Probe, state: Mapping[str, Any], random_seed: int) -> None:
    """Tries on with the tools that have not succeeded yet, each in a world in which others make what it may need."""
    probe.control = "reach"
    tools = probe.environment.tools()
    makers = [each for each in tools.values() if not each.reads]
    for tool in sorted(set(tools) - probe.reached - probe.hung):
        rng = keyed_random(random_seed, "reach", probe.environment.name, tool)
        sampler = Sampler(rng)
        sampler.learn("", state)
        instance = probe.reset(copy.deepcopy(state))
        for _ in range(REACH):
            if tool in probe.reached:
                break
            for each in (rng.choice(makers), tools[tool]) if makers else (tools[tool],):
                call = sampler.call(each)
                sampler.heard(call, probe.call(instance, call))


def _runaways(probe: Probe) -> None:
    """No enormous argument makes a call run away, raise, or give an enormous result."""
    probe.control = "runaway"
    instance = probe.reset(None)
    for argument, call in attempts(probe.environment.tools()):
        result = probe.call(instance, call)
        if len(result.text) > LONGEST:
            what = f"with an enormous value gave a result of {len(result.text)} characters"
            probe.fault(call.name, argument, what, "bound the argument")
