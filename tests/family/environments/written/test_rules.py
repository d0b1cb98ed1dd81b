"""The rules of a written world: they are held to examples that break them, a tool that breaks one
goes back to its writer once, and what a checker found wrong is mended and played again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from rods.asking import Question, Unreadable
from rods.calls import Call
from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.errors import BrokenEnvironment
from rods.family.environments.programs import STATE_PART, WorldPlan, WorldProgram, placed
from rods.family.environments.written.assessing import Round, hold, played_again, problems_of
from rods.family.environments.written.building import (
    BECOMES,
    BuiltWorld,
    Dropped,
    _read_broken,
    _read_state,
    _try_rules,
    build,
    parts_at_fault,
)
from rods.family.environments.written.record import CachedQuestioner
from rods.worlds.checking import Fault
from tests.family.environments.written.answering import BROKEN, FILL, LOOK, START, STATE, Answering

SANDBOX = Sandbox(workers=1, seconds=10.0)
RULE = '    return {1: f"{jar} holds {much}" for jar, much in world.jars.items() if much > 90}\n'
OVERFILLS = FILL.replace("+ more > 90", "+ more > 900")


def tried(rules: str, broken: list[dict[str, Any]], folder: Path) -> None:
    code = STATE.replace(RULE, rules)
    assert rules == RULE or code != STATE
    bare = WorldProgram(WorldPlan("Jars.", {}, ("A jar holds at most 90.",), ()), code)
    with Environments(SANDBOX) as environments:
        _try_rules(environments, placed(bare.source() + BECOMES, folder), broken)


@pytest.mark.needs("sandbox")
def test_rules_that_find_their_examples_broken_pass_before_and_after_a_change(
    tmp_path: Path,
) -> None:
    tried(RULE, BROKEN, tmp_path)
    emptied = {"rule": 1, "before": {"jars": {"plums": 3}}, "state": {"jars": {}}}
    tried(
        "    return {1: 'emptied'} if before.jars and not world.jars else {}\n", [emptied], tmp_path
    )


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize(
    ("rules", "broken", "why"),
    [
        ("    return {}\n", BROKEN, "rules: rule 1 is not found broken by its example"),
        ("    return {1: 'always'}\n", BROKEN, "loads: .*breaks rule 1: always"),
        ("    return {2: 'other'} if world.jars else {}\n", BROKEN, "its example: .*rule 2: other"),
        (
            "    return {1: 'full'} if world.jars and world.jars['plums'] > 90 else {}\n",
            [{"rule": 1, "state": {"jars": {"plums": 91, "pears": 1}}}],
            "rules: .*raised KeyError.* in the state",
        ),
        (
            RULE,
            [{"rule": 1, "state": {"jars": {"x" * 30: 91}}}],
            "rule 1 is not found broken .*at most 20",
        ),
    ],
)
def test_rules_that_do_not_are_refused(
    rules: str, broken: list[dict[str, Any]], why: str, tmp_path: Path
) -> None:
    with pytest.raises(Unreadable, match=why):
        tried(rules, broken, tmp_path)


def test_each_rule_has_an_example_and_the_function_its_signature() -> None:
    with pytest.raises(Unreadable, match="no example breaks rule 2"):
        _read_broken({"broken": BROKEN}, 2)
    with pytest.raises(Unreadable, match="there is no rule 1"):
        _read_broken({"broken": BROKEN}, 0)
    with pytest.raises(Unreadable, match="signature: there is to be one broken_rules"):
        _read_state({"code": STATE.partition("\n\ndef broken_rules")[0]})


@pytest.mark.slow
@pytest.mark.needs("sandbox")
async def test_a_tool_that_breaks_a_rule_goes_back_to_its_writer_with_rule_and_call() -> None:
    authors = Answering(fill=lambda question: FILL if question.fields["problem"] else OVERFILLS)
    world = await build(cast(CachedQuestioner, authors), "Jars.", SANDBOX)
    asked = [authors.named(question) for question in authors.asked]
    assert asked[-2:] == ["look fill", "fill"] and asked.count("world_state") == 1
    problem = authors.asked[-1].fields["problem"]
    assert "rules: fill: breaks rule 1: " in problem and "(fill(jar=" in problem
    assert world.program.tools["fill"] == FILL


def test_a_rule_that_is_broken_again_goes_back_itself_with_the_tool_s_source() -> None:
    program = WorldProgram(WorldPlan("Jars.", {}, ("It.",), ()), STATE, {"fill": FILL})
    fault = Fault("fill", "", "breaks rule 1: 91 (fill())", "refuse", "rules")
    assert list(parts_at_fault(program, [fault])) == ["fill"]
    ((part, text),) = parts_at_fault(program, [fault], {("fill", "breaks rule 1")}).items()
    assert part == STATE_PART and FILL in text and "breaks rule 1" in text


@pytest.mark.needs("sandbox")
def test_a_world_s_file_refuses_states_and_calls_that_break_its_rules(tmp_path: Path) -> None:
    tools = {"look": LOOK, "fill": OVERFILLS}
    plan = WorldPlan("Jars.", {}, ("A jar holds at most 90.",), ())
    program = WorldProgram(plan, STATE, tools)
    source = program.source() + f'\n\n@WORLD.tool("Jars", reads=False)\n{OVERFILLS}'
    with Environments(SANDBOX) as environments:
        environment = environments.load(f"{tmp_path}/{addressed.keep(source, tmp_path)}")
        with pytest.raises(ValueError, match="breaks rule 1: plums holds 91"):
            environment.reset({"jars": {"plums": 91}})
        world = environment.reset({"jars": {"plums": 80}})
        with pytest.raises(BrokenEnvironment, match=r"fill.* breaks rule 1: plums holds 95"):
            world.call(Call("fill", {"jar": "plums", "more": 15}))
        assert world.snapshot() == {"jars": {"plums": 80}}


@pytest.mark.needs("sandbox")
async def test_a_wrong_round_is_told_to_the_tool_s_writer_and_played_again(tmp_path: Path) -> None:
    call = Call("fill", {"jar": "plums", "more": 2})
    wrong = "the jar is not filled"
    rounds = [Round(call, START, START, "9", wrong), Round(call, START, START, "9")]
    (problem,) = problems_of(rounds).values()
    assert "fill(jar='plums', more=2): the jar is not filled" in problem and '"plums":7' in problem
    plan = WorldPlan("Jars.", {}, ("A jar holds at most 90.",), ())
    program = WorldProgram(plan, STATE, {"fill": FILL})
    source = program.source() + f'\n\n@WORLD.tool("Jars", reads=False)\n{FILL}'
    judged: list[Question[Any]] = []

    class Checks:
        async def ask(self, question: Question[Any], about: str, number: int = 0) -> Any:
            judged.append(question)
            return question.read({"why_1": "so", "verdict_1": "right"})

    with Environments(SANDBOX) as environments:
        environment = environments.load(f"{tmp_path}/{addressed.keep(source, tmp_path)}")
        world = BuiltWorld(program, (START,))
        again = await played_again(cast(Any, Checks()), world, environment, rounds)
    assert [played.wrong for played in again] == ["", ""]
    (asked,) = judged
    assert asked.fields["calls"].startswith('1. The state before: {"jars":{"plums":7,')
    assert asked.fields["calls"].endswith("What has changed in the state: jars.plums: 7 → 9")
    with pytest.raises(Dropped, match="assessment"):
        hold(rounds, 0.85)
    hold(again, 0.85)
