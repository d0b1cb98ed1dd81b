"""House rules: what breaks them is refused and told by hints alone, and tasks and demonstrations
are what they say."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from rods import dialects
from rods.calls import Call
from rods.canonical import keyed_random
from rods.composing import bind, planning
from rods.composing.catalogue import catalogue_for
from rods.composing.plan_search import PlanShape
from rods.composing.records import ComposeError
from rods.console.main import run as rods
from rods.environments.loading import Environments
from rods.errors import EXIT_OK, UserError
from rods.family.feedback.hints import hint
from rods.family.house_rules import taught
from rods.family.house_rules.house import House
from rods.family.house_rules.keeping import house_tasks, keeping, kept
from rods.family.house_rules.rule import KINDS, VALUES, Rule, drawn
from rods.interfaces import Shown
from rods.worlds import desk
from rods.worlds.desk.generator import fresh_tasks

STATE = {
    "mail": {
        "inbox": {
            "m12": {"sender": "box11", "subject": "audit", "text": "not ready", "flagged": False}
        },
        "sent": {},
        "next": 24,
    }
}
REPLY = Call("reply_mail", {"mail": "m12", "text": "well done"})
RULES = {  # a rule of each kind, the calls that keep it, and its few words
    Rule("order", "reply_mail", first="read_mail", key="mail"): (
        [Call("read_mail", {"mail": "m12"}), REPLY],
        "first read_mail mail",
    ),
    Rule(
        "state", "reply_mail", first="flag_mail", key="mail", part="mail.inbox", field="flagged"
    ): ([Call("flag_mail", {"mail": "m12"}), REPLY], "first flag_mail mail"),
    Rule("form", "reply_mail", argument="text", key="mail", ends=True): (
        [Call("reply_mail", {"mail": "m12", "text": "well done m12"})],
        "end text with mail",
    ),
    Rule("default", "reply_mail", value="fax"): (
        [Call("reply_mail", {**REPLY.arguments, "via": "fax"})],
        "give via fax",
    ),
}


def house(*rules: Rule) -> House:
    """A world with these rules alone."""
    world = House(0)
    world.rules = {rule.tool: rule for rule in rules}
    world.firsts = frozenset(rule.first for rule in rules if rule.kind == "order")
    return world


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_a_call_that_breaks_a_rule_is_refused_in_the_dark_and_the_rule_is_told_by_a_hint(
    rule: Rule,
) -> None:
    world = house(rule)
    (calls, few) = RULES[rule]
    instance = world.reset(STATE)
    refused = instance.call(REPLY)
    assert (refused.text, refused.error) == ('{"error":"refused"}', "tool")
    shown = Shown(world, world.tools())
    assert hint(shown, REPLY, refused, brief=True) == few
    assert hint(shown, REPLY, refused) == rule.told.sentence and rule.told.sentence.startswith(
        "The house "
    )
    assert keeping(instance, REPLY) == calls
    assert [instance.call(call).error for call in calls] == [None] * len(calls)
    other = Call("reply_mail", {"mail": "m99", "text": "well done"})
    assert hint(shown, other, instance.call(Call("read_mail", {"mail": "m99"})), brief=True) != few


def test_what_a_rule_remembers_is_in_snapshots_and_forks() -> None:
    order = next(iter(RULES))
    world = house(order)
    instance = world.reset(STATE)
    before = instance.fork()
    instance.call(Call("read_mail", {"mail": "m12"}))
    for other in (instance, instance.fork(), world.reset(instance.snapshot())):
        assert other.fork().call(REPLY).error is None
    assert before.call(REPLY).error == world.reset(STATE).call(REPLY).error == "tool"
    with pytest.raises(ValueError, match="a list of calls"):
        world.reset({"house": "read_mail m12"})


def test_the_seed_names_the_rules_and_demonstrations_have_none_of_a_run() -> None:
    with Environments() as environments:
        one = environments.load("1.house")
        two = environments.load("2.house")
        assert (
            one.hash != two.hash
            and one.hash == House(1).hash
            and one.tools().keys() == two.tools().keys()
        )
        with pytest.raises(UserError, match="names no world"):
            environments.load("one.house")
    run = {rule for seed in range(60) for rule in drawn(seed, taught=False).values()}
    shown = {rule for seed in range(60) for rule in drawn(seed, taught=True).values()}
    assert len(run) > 60 and len(shown) > 100 and run.isdisjoint(shown)
    assert {rule.kind for rule in run} == {rule.kind for rule in shown} == set(KINDS)
    assert {rule.value for rule in shown if rule.value} == set(VALUES)


def test_no_task_can_be_done_without_a_rule_and_the_file_has_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = House(3)
    for told in (False, True):
        tasks = house_tasks(world, 3, 8, 10, told)
        assert Counter(task.split for task in tasks) == {"train": 8, "test": 8, "validation": 2}
        for task in tasks:
            instance = world.reset(task.state)
            assert all(instance.call(call).error is None for turn in task.calls for call in turn)
            minded = task.provenance["rules"]
            said = [text.partition(" rules ")[2] for text in task.script]
            assert minded and any(said) == told
            told_of = [
                [turn, rule.split()[0]]
                for turn, rules in enumerate(said)
                if rules
                for rule in rules.split(" . ")
            ]
            assert told_of == (
                [list(one) for one in dict.fromkeys(map(tuple, minded))] if told else []
            )
    assert (
        rods(["data", "house", str(tmp_path / "h.jsonl"), "--train", "6", "--held-out", "5"])
        == EXIT_OK
    )
    assert rods(["data", "check", str(tmp_path / "h.jsonl"), "--trust"]) == EXIT_OK
    assert "no fault" in capsys.readouterr().out


def test_a_plain_task_is_refused_where_it_breaks_a_rule() -> None:
    world = House(4)
    broken = 0
    for task, _ in islice(fresh_tasks(0, "test", size="small"), 12):
        if (changed := kept(world, task)) is None:
            continue
        instance = world.reset(task.state)
        refused = [instance.call(call).text for turn in task.calls for call in turn].count(
            '{"error":"refused"}'
        )
        assert bool(refused) == bool(changed.provenance["rules"])
        broken += bool(refused)
    assert broken > 3


def test_demonstrations_try_again_as_often_with_hints_as_without() -> None:
    """With hints they are right at once; without they are now and then, and give the turn up after
    some guesses. Where a user says the rules, nothing is refused."""
    lists = taught.demonstrations(1, dialects.load("compact"), 0.0, worlds=24, each=8)
    tried: dict[bool, list[bool]] = {True: [], False: []}
    # how often one tool was refused in a turn
    times: dict[bool, set[int]] = {True: set(), False: set()}
    for trace in next(lists):
        assert trace.end == "finished"
        said = {
            role: " ".join(m.content for m in trace.messages if m.role == role)
            for role in ("user", "tool")
        }
        for turn in trace.turns:
            called = [
                (step.calls[0].name, step.results[0].text) for step in turn.steps if step.results
            ]
            refused = [name for name, text in called if text == '{"error":"refused"}']
            if " rules " in said["user"]:
                assert not refused and trace.resolved == trace.expected
            elif refused:
                told = "hint=" in said["tool"]
                tried[told].append(len(refused) > 1 or called[-1][1] != '{"error":"refused"}')
                times[told] |= set(Counter(refused).values())
    shares = [sum(found) / len(found) for found in tried.values()]
    assert min(map(len, tried.values())) > 30 and all(
        abs(share - taught.RECOVERS) < 0.1 for share in shares
    ), shares
    assert times == {True: {1}, False: set(range(1, 2 + taught.GUESSES))}


def test_what_is_composed_keeps_to_the_rules() -> None:
    """By recipes with a call or an argument more; those that a rule of form would need are left
    out."""
    plain = catalogue_for(desk.environment())
    minded = Counter[str]()
    for world in map(House, range(1, 7)):
        catalogue = catalogue_for(world)
        forms = {name for name, rule in world.rules.items() if rule.kind == "form"}
        dropped = {
            name for name, recipe in plain.recipes.items() if forms.intersection(recipe.tools)
        }
        assert catalogue.recipes.keys() == plain.recipes.keys() - dropped
        for number in range(12):
            rng = keyed_random(7, world.name, number)
            try:
                plan = planning.plan(
                    catalogue, world, PlanShape((1, 2, 2), depth=2), "base", rng=rng
                )
                state = bind.fresh_state(catalogue, plan, None, rng)
                draft = bind.realise(world, catalogue, plan, state, bind.random_chooser(rng))
            except ComposeError as error:
                assert "refused" not in error.detail
                continue
            instance = world.reset(state)
            for call in (bound.call for turn in draft.turns for bound in turn):
                rule = world.rules.get(call.name)
                assert instance.call(call).error is None
                minded[rule.kind if rule else "none"] += 1
    assert minded["form"] == 0 and minded["order"] > 3 and minded["default"] > 30, minded
