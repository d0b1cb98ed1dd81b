"""Aimed synthesis from the logs of real runs: every variant lies where its pick aims, and verify
says so."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.analysis.profile import Profile, profile
from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, SEEDS
from rods.canonical import keyed_random
from rods.config import preset
from rods.console.dash.views import lineage
from rods.console.follower import Follower
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.llm import LLMAuthor
from rods.errors import UserError
from rods.family.aiming.operators import TABLES, applicable, faults, led, measures
from rods.family.aiming.picking import Directions
from rods.family.aiming.settings import Operator
from rods.observations import Group, Role, Rollout
from rods.rules.selection import TaskFacts, select
from rods.rules.zones import Moments, TaskSignal
from rods.tasks import Task
from tests.buffers.audit.test_verify import rewrite
from tests.console.conftest import rods
from tests.daemon.authors.llm.world import asker_at, assignment
from tests.daemon.pipelines import THREADS, Bench, author, seed, settings, tasks
from tests.daemon.runs import Daemon, Trainer, idle, make_run, seeds, until, variants
from tests.environments import load

ON = {"aiming": {"enabled": True}}
AIMED: dict[str, Any] = {
    "sync": "lockstep",
    "selection": {"seeds_per_step": 8, "exclusion_steps": 0},
    "pool": {"staging_epochs": 0.0},
    "aiming": {"enabled": True, "easy_share": 0.5, "operators": list(TABLES)},
}


class Uneven(Trainer):
    """Rewards by task and step: nothing is solved, half of it, or three rollouts of four."""

    def group(self, step: int, task_id: str, role: Role) -> Group:
        turns = self.log.task(task_id).expected
        solved = keyed_random(0, "solved", step // 3, task_id).choice((0, 0, 2, 3, 3))
        rollouts = tuple(
            Rollout(turns * done, turns, int(done), 0.0, float(done), "finished")
            for done in (number < solved for number in range(4))
        )
        return Group(task_id, self.stage, self.interface, "progress", (0.0, 1.0), rollouts, role)


@pytest.fixture(scope="module")
def aimed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in lockstep."""
    run = make_run(tmp_path_factory.mktemp("aimed") / "run", AIMED)
    with Uneven(run) as trainer, Daemon(run.path):
        for _ in range(3):
            trainer.play(3)
            until(lambda: idle(run.path, trainer.step), 400)
    return run.path


def shapes(path: Path) -> list[tuple[Record, Record, Profile, Profile]]:
    """Of each variant its pick, its record, its seed's profile and its own."""
    run = Run.open(path)
    known = {task.id: task for task in run.tasks}
    picks = {record["pick"]: record for record in seeds(path, "picked")}
    told = []
    for record in variants(path):
        task = Task.from_json(record["task"])
        known[task.id] = task
        source = known[picks[record["pick"]]["task"]]
        assert isinstance(source, Task)
        world = run.environments.load("desk")
        told.append((picks[record["pick"]], record, profile(world, source), profile(world, task)))
    return told


@pytest.mark.slow
def test_every_variant_of_a_run_lies_where_its_pick_aims(aimed: Path) -> None:
    seen = Counter[str]()
    for pick, record, before, after in shapes(aimed):
        told = pick["why"]["aim"]
        provenance = record["task"]["provenance"]["aim"]
        assert provenance["direction"] == told["direction"]
        mean = pick["why"]["mean"]
        assert told["direction"] == (
            "easier" if mean < 0.3 else "harder" if mean > 0.7 else "sideways"
        )
        operator = provenance.get("operator")
        seen[operator or "sideways"] += 1
        calls = len(before.nodes)
        made = len(after.nodes)
        match operator:
            case None:
                assert after.type == before.type and after.depth == before.depth
            case "chain":
                assert made > calls and after.depth > before.depth and after.type == before.type
            case "follow":
                assert len(after.turns) == len(before.turns) + 1 and made > calls
                assert any(first < last == len(after.turns) - 1 for first, last in after.links)
            case "withhold":
                assert before.type == "base" and after.type in ("miss_func", "miss_param")
                assert () in after.turns and () not in before.turns and made >= calls
            case "pad":
                assert (before.type, after.type) == ("base", "long_context") and made >= calls
            case "trim":
                assert made < calls and len(after.turns) == len(before.turns)
            case "tell":
                assert after.depth < before.depth and made <= calls
            case "cut":
                assert len(after.turns) < len(before.turns) and made < calls
            case "split":
                assert len(after.turns) == len(before.turns) + 1 and made <= calls
            case "serve":
                assert (
                    before.type in ("miss_func", "miss_param")
                    and after.type == "base"
                    and () not in after.turns
                )
            case "crowd":
                assert after.shown > before.shown and made >= calls and after.type == before.type
            case "thin":
                assert after.shown < before.shown and made <= calls and after.type == before.type
    ways = {TABLES[name]["direction"] if name in TABLES else name for name in seen}
    assert ways == {"harder", "sideways", "easier"}


@pytest.mark.slow
def test_tasks_without_any_success_are_seeds_of_easier_variants_alone(aimed: Path) -> None:
    below = [pick for pick in seeds(aimed, "picked") if pick["why"]["mean"] < 0.2]
    assert below and {pick["why"]["aim"]["direction"] for pick in below} == {"easier"}
    assert any(pick["why"]["mean"] == 0 for pick in below)


@pytest.mark.slow
def test_verify_derives_directions_again_and_holds_them_to_the_calls(aimed: Path) -> None:
    for replay in (False, True):
        report = verify(aimed, replay=replay)
        assert report.ok, report.problems
    assert report.counts["aims"] == len(seeds(aimed, "picked"))
    assert report.counts["aims held to their calls"] == len(variants(aimed)) > 10


@pytest.mark.slow
def test_inspect_and_the_page_say_which_way_a_variant_went(aimed: Path) -> None:
    made = next(
        record for record in variants(aimed) if "operator" in record["task"]["provenance"]["aim"]
    )
    task = made["task"]["id"]
    aim = made["task"]["provenance"]["aim"]
    words = f"{aim['direction']} by {aim['operator']}"
    nodes = lineage(Follower(aimed), {"task": task})["nodes"]
    assert {node["task"]: node.get("aim") for node in nodes}[task] == words
    said = rods("inspect", aimed, task).stdout
    assert f"{task} ({words})" in next(
        line for line in said.splitlines() if line.startswith("lineage")
    )
    assert (
        "'aim': {'direction'" in rods("inspect", aimed, made["task"]["provenance"]["seed"]).stdout
    ), "of its picks"


def forged(
    aimed: Path, path: Path, log: str, change: Callable[[Record], Record], *, replay: bool = False
) -> str:
    """What verify says of a copy of the run in which `change` was made to the records of a log."""
    shutil.copytree(aimed, path)
    rewrite(path / log, change)
    return str(verify(path, replay=replay).problems)


@pytest.mark.slow
def test_verify_reports_a_forged_direction_and_a_forged_mean(aimed: Path, tmp_path: Path) -> None:
    def turned(record: Record) -> Record:
        aim = {"direction": "harder", "operators": ["chain"]}
        return (
            {**record, "why": {**record["why"], "aim": aim}}
            if record["kind"] == "picked"
            else record
        )

    def raised(record: Record) -> Record:
        return (
            {**record, "why": {**record["why"], "mean": 0.875}}
            if record["kind"] == "picked"
            else record
        )

    assert "and the mean 0.0 gives" in forged(aimed, tmp_path / "aim", SEEDS, turned)
    assert "says the mean 0.875, and the step's groups give [0.5]" in forged(
        aimed, tmp_path / "mean", SEEDS, raised
    )


@pytest.mark.slow
def test_verify_reports_a_variant_that_names_another_direction_or_operator(
    aimed: Path, tmp_path: Path
) -> None:
    wanted = {record["pick"]: record["why"]["aim"] for record in seeds(aimed, "picked")}

    def changed(record: Record, **aim: Any) -> Record:
        task = record["task"]
        provenance = {**task["provenance"], "aim": {**task["provenance"]["aim"], **aim}}
        return {**record, "task": {**task, "provenance": provenance}}

    def turned(record: Record) -> Record:
        return changed(record, direction="harder", operator="chain")

    def swapped(record: Record) -> Record:
        """Each operator by another one that its pick allows: only the calls can tell."""
        own = record["task"]["provenance"]["aim"].get("operator")
        others = [name for name in wanted[record["pick"]].get("operators", ()) if name != own]
        return changed(record, operator=others[0]) if others else record

    told = forged(aimed, tmp_path / "turned", EXPANDED, turned)
    chain = "went {'direction': 'harder', 'operator': 'chain'}, and its pick aims at "
    assert chain + "{'direction': 'easier'" in told and chain + "{'direction': 'sideways'}" in told
    assert "went" not in forged(aimed, tmp_path / "swapped", EXPANDED, swapped)
    told = forged(aimed, tmp_path / "replayed", EXPANDED, swapped, replay=True)
    assert " asks for " in told and "beside the seed's" in told


@pytest.mark.parametrize("operator", TABLES)
async def test_an_operator_leads_where_its_rule_says(operator: Operator) -> None:
    config: Any = settings(aiming={"enabled": True, "operators": list(TABLES)})
    world = load("desk")
    bench = Bench(config)
    direction = TABLES[operator]["direction"]
    training = [task for task in tasks() if task.split == "train"]
    fitting = [
        task
        for task in training
        if operator in applicable(config.aiming, measures(task.type, task.calls))
    ]
    for task in fitting[:6]:
        job = Assignment(
            f"1-{task.id}", 0, task, task, 1, aim={"direction": direction, "operators": [operator]}
        )
        made = await bench.pipeline.write(
            job, author(), world, lambda _: [], bench.rejections.append
        )
        if isinstance(made, Task):
            before = profile(world, task)
            after = profile(world, made)
            assert made.provenance["aim"] == {"direction": direction, "operator": operator}
            assert faults(operator, config.aiming, before, after) == []
            assert faults(operator, config.aiming, before, before) != []
            return
    raise AssertionError(bench.rejections)


@pytest.mark.parametrize("recipes", [True, False], ids=["recipes", "single tools"])
async def test_a_model_is_told_where_its_variant_goes(recipes: bool, tmp_path: Path) -> None:
    config: Any = settings(**ON, pipeline={"author": "llm", "recipes": recipes})
    world = load("desk")
    bench = Bench(config)
    aim = {"direction": "easier", "operators": ["tell"]}
    fitting = [task for task in tasks() if task.split == "train" and task.type == "base"]
    bodies = tmp_path / "bodies"
    with Stub(Script(answer="bench.fixtures.llm_stub.roles:answer"), bodies=bodies) as stub:
        async with asker_at(stub) as asker:
            for task in fitting:
                who = LLMAuthor(world, asker, config.pipeline, THREADS)
                job = Assignment(f"1-{task.id}", 0, task, task, 1, aim=aim)
                made = await bench.pipeline.write(
                    job, who, world, lambda _: [], bench.rejections.append
                )
                if isinstance(made, Task):
                    break
    assert isinstance(made, Task), bench.rejections
    assert profile(world, made).depth < profile(world, task).depth
    assert "the user says a value that had to be looked up before" in bodies.read_text()


async def test_what_is_left_after_a_cut_begins_in_the_state_that_the_calls_before_lead_to() -> None:
    config: Any = settings(**ON)
    world = load("desk")
    for task in tasks():
        given = replace(assignment(task, world), profile=profile(world, task))
        left = led("cut", config.aiming, world, given, given.rng("aim"))
        if left is None:
            continue
        turn = len(task.calls) - len(left.seed.calls)
        instance = world.reset(task.state)
        for call in (call for calls in task.calls[:turn] for call in calls):
            instance.call(call)
        assert (
            turn > 0
            and left.seed.calls == task.calls[turn:]
            and left.seed.state == instance.snapshot()
        )
        assert (
            left.seed.texts == task.texts[turn:]
            and left.profile.turns == profile(world, left.seed).turns
        )


async def test_a_pick_that_does_not_aim_leaves_no_trace() -> None:
    task = seed("base")
    plain = settings()
    active = {task.id: TaskFacts(task.type, task=task)}
    signal = TaskSignal(task.id, Moments(0.5, 0.25))
    (pick,) = select(1, [signal], active, {}, plain)
    assert "aim" not in pick.why
    made = await Bench(plain).variant(task, pick=pick.id)
    assert "aim" not in made.provenance
    assert "aiming" not in preset("rods-paper")  # and it is off by default


def test_tasks_below_the_boundary_are_picked_only_where_variants_are_aimed() -> None:
    task = seed("base")
    active = {task.id: TaskFacts(task.type, task=task)}
    signal = TaskSignal(task.id, Moments(0.0, 0.0))
    aimed = settings(**ON)
    plain = settings()
    (pick,) = select(1, [signal], active, {}, aimed)
    assert pick.why["aim"]["direction"] == "easier"
    assert {TABLES[operator]["direction"] for operator in pick.why["aim"]["operators"]} == {
        "easier"
    }
    assert select(1, [signal], active, {}, plain) == []
    cut = TaskSignal(task.id, Moments(0.0, 0.0), truncated=True)
    assert select(1, [cut], active, {}, aimed) == []
    none = settings(aiming={"enabled": True, "operators": ["chain"]})
    assert select(1, [signal], active, {}, none) == []


def test_a_share_of_the_picks_is_of_easier_variants() -> None:
    """The best pick of a type is kept, the last of the others gives way to a seed below the
    boundary."""
    plenty = [task for task in tasks() if task.split == "train" and task.type == "base"][:3]
    active = {task.id: TaskFacts(task.type, task=task) for task in plenty}
    means = (0.5, 0.6, 0.0)
    signals = [
        TaskSignal(task.id, Moments(mean, 0.25)) for task, mean in zip(plenty, means, strict=True)
    ]
    for share, kept in ((0.0, [0, 1]), (0.5, [0, 2]), (1.0, [0, 2])):
        config = settings(
            aiming={"enabled": True, "easy_share": share},
            selection={"seeds_per_step": 2, "quota": 2},
        )
        assert [pick.task for pick in select(1, signals, active, {}, config)] == [
            plenty[n].id for n in kept
        ]
    others = settings(
        aiming={"enabled": True, "easy_share": 1.0}, selection={"groups": [["long_context"]]}
    )
    assert select(1, signals, active, {}, others) == [], "a type without a group is never picked"


def test_variants_of_a_pick_and_attempts_take_operators_in_turn() -> None:
    directions = Directions(settings(**ON))
    task = seed("base")
    world = load("desk")
    aim = directions.aim(3, task, 0.0)
    assert aim is not None and len(operators := aim["operators"]) > 2
    given = replace(assignment(), seed=task, root=task, profile=profile(world, task))

    def first(index: int, attempt: int) -> str:
        return str(
            directions.target(
                world, replace(given, pick="3-a", index=index, attempt=attempt), aim
            ).aim["operator"]
        )

    assert (
        [first(index, 1) for index in range(3)]
        == [first(0, attempt) for attempt in (1, 2, 3)]
        == operators[:3]
    )
    assert first(1, 2) == operators[2]


def test_a_direction_does_not_depend_on_the_order_of_candidates() -> None:
    directions = Directions(settings(**ON))
    task = seed("base")
    aims = [directions.aim(step, task, 0.9) for step in range(1, 20)]
    assert aims == [directions.aim(step, task, 0.9) for step in range(1, 20)]
    assert len({tuple(aim["operators"]) for aim in aims if aim}) > 1
    assert (
        directions.aim(1, task, 0.5) == directions.aim(1, task, None) == {"direction": "sideways"}
    )


def test_a_schedule_leads_from_easier_to_harder_whatever_seeds_earned() -> None:
    ladder = Directions(settings(aiming={"enabled": True, "schedule_steps": 10}))
    task = seed("base")
    for mean in (None, 0.0, 0.5, 1.0):
        aims = [ladder.aim(step, task, mean) for step in range(1, 21)]
        assert [aim and aim["direction"] for aim in aims] == ["easier"] * 2 + ["sideways"] * 5 + [
            "harder"
        ] * 13


@pytest.mark.slow
def test_verify_derives_directions_by_schedule_from_the_steps(tmp_path: Path) -> None:
    aiming = {
        "aiming": {"enabled": True, "schedule_steps": 9},
        "selection": {**AIMED["selection"], "order": "random"},
    }
    run = make_run(tmp_path / "run", {**AIMED, **aiming})
    with Uneven(run) as trainer, Daemon(run.path):
        for _ in range(3):
            trainer.play(3)
            until(lambda: idle(run.path, trainer.step), 400)
    aims = {
        (record["step"], record["why"]["aim"]["direction"]) for record in seeds(run.path, "picked")
    }
    assert {(1, "easier"), (2, "easier"), (5, "sideways"), (9, "harder")} <= aims
    assert {step for step, way in aims if way == "easier"} <= {1, 2}
    checked = verify(run.path, replay=True)
    assert checked.ok and checked.counts["aims"] and checked.counts["aims held to their calls"]

    def moved(record: Record) -> Record:
        return (
            {**record, "step": 5} if record["kind"] == "picked" and record["step"] == 1 else record
        )

    assert " gives {'direction': 'sideways'}" in forged(run.path, tmp_path / "moved", SEEDS, moved)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(UserError, match="soften_below"):
        settings(aiming={"enabled": True, "soften_below": 0.8})
    with pytest.raises(UserError, match=r"gates\.profile"):
        settings(aiming={"enabled": True}, gates={"profile": False})
