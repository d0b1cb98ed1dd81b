"""Does a policy with weights learn under TRUSTEE's curriculum (001 §2.3)? nano on tasks that are
drawn for every step.

Claim: with the adaptive curriculum GRPO gains held-out reward, on the tools that it trains with and
on others. Anchor: the condition *no curriculum* of experiments/trustee/conditions.toml: the same
steps, rollouts and draws, everything at its highest level from the first step on. Command: `python
-m bench.nano_trustee` (all conditions, ten random seeds, two runs at a time), with the options of
`python -m bench.nano_loop`, whose runs it makes.

Tools are two categories of the shipped repository, eight tools each, whose identifiers are words:
nano does not learn to copy five digits, nor to write a date in another form, so the categories have
none. Both are shown by the teacher of the warm start: first carefully and on the harder half of the
difficulties, which copy most and whose system texts are short, since nano learns to copy from
replies that are right; then carelessly and on all, so that there is something left to learn. Only
the first is trained with, the second is held out. User, tools and verifier are played without a
model, or, in *behind HTTP*, by the rules of the stub behind an endpoint. Differences are paired by
random seed, with intervals of 95 % (Student's t).
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench.fixtures.llm_stub import Script, Stub
from bench.nano_loop import ROOT, RUNS, Line, Study, Values, by_condition, main, measured, signed
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.calls import Call
from rods.canonical import keyed_random
from rods.config import parse_config
from rods.conversations import Persona
from rods.dialects import Dialect, load
from rods.environments.base import reference
from rods.environments.loading import Environments
from rods.episode.drivers import run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.evaluation.scoring import estimate
from rods.family.simulation.difficulty import HIGHEST, LOWEST, levels
from rods.family.simulation.generating import draw_task, open_task
from rods.family.simulation.settings import DRAWN, DifficultyRules
from rods.family.simulation.source import drawn_from
from rods.players import Players
from rods.tasks import OpenTask
from rods.worlds.desk.generator import data_set

# categories; the tools of the second are in no task of a run's steps
TRAINED = "library"
OTHERS = "support"
TOOLS = 8  # of each
HELD_OUT = 40  # tasks of each
PORT = 8123  # and the random seed: the stub's
SHIPPED = ROOT / "family" / "simulation" / "repository"
# fmt: off
WORDS = (
    "amber", "anchor", "apple", "arrow", "badge", "bamboo", "banjo", "barrel", "basil", "beacon",
    "birch", "breeze", "bridge", "bronze", "candle", "canyon", "cedar", "cherry", "clover",
    "cobalt", "comet", "copper", "coral", "cotton", "crane", "crystal", "dune", "eagle", "ember",
    "falcon", "feather", "fern", "flint", "forest", "garnet", "ginger", "glacier", "hazel", "heron",
    "indigo", "island", "ivory", "jasper", "juniper", "lantern", "lemon", "linen", "lotus", "maple",
    "marble", "meadow", "mint", "nectar", "olive", "onyx", "opal", "orchid", "otter", "pebble",
    "pepper", "pine", "plum", "quartz", "raven", "river", "saffron", "silver", "sparrow", "thistle",
    "tulip", "velvet", "walnut", "willow",
)
# fmt: on
DONE = "done"
FLAWS = ("idle", "short", "guess")
ENTRIES = 1_500  # of the tokenizer, at most
# Its words: identifiers are cut into theirs, and keys into letters and digits, so that tools that
# were never shown have known words.
PARTS = r" ?[A-Za-z_]+=(?= |$)| ?_?[A-Za-z]+|\d| ?[^\w\s]|_|\s"
# share of the steps of the warm start whose demonstrations have no flaw; they come first
CAREFUL = 0.6


class TrusteeStudy(Study):
    """One whose random seeds also draw the tasks of its steps, and the held-out ones, which are one
    file a seed."""

    def configuration(
        self, name: str, seed: int, more: Mapping[str, Values] | None = None
    ) -> Values:
        values = super().configuration(name, seed, more)
        data = {**values["data"], "tasks": f"held-out-{seed}.jsonl"}
        policy = {**values["policy"], "model": f"nano-{values['policy']['warm_start_steps']}"}
        seeds = {**values["random_seeds"], "drawn": seed}
        own = [f"http://127.0.0.1:{PORT + seed}/v1"]  # runs are made side by side
        players = [{**endpoint, "urls": own} for endpoint in values["operation"].get("players", ())]
        values["operation"] = {**values["operation"], "players": players}
        return {**values, "data": data, "policy": policy, "random_seeds": seeds}


STUDY = TrusteeStudy(ROOT / "experiments" / "trustee", "nano_trustee")


def tools_with_words(category: str, folder: Path) -> None:
    """Writes the first `TOOLS` tools of a shipped category as a repository whose identifiers are
    words."""
    text = (SHIPPED / f"{category}.json").read_text(encoding="utf-8")
    entry = json.loads(re.sub(r'"pattern": "[^"]*"', f'"pattern": "^({"|".join(WORDS)})$"', text))
    about = json.loads((SHIPPED / "categories.json").read_text(encoding="utf-8"))[category]
    folder.mkdir(exist_ok=True)
    (folder / "categories.json").write_bytes(orjson.dumps({category: about}))
    (folder / f"{category}.json").write_bytes(
        orjson.dumps({**entry, "tools": entry["tools"][:TOOLS]})
    )


def drawn(
    environments: Environments, category: str, random_seed: int, number: int, lowest: int = LOWEST
) -> OpenTask:
    """A task over the tools of one category, of a difficulty drawn evenly from `lowest` to the
    highest."""
    environment = drawn_from(f"{category}/", environments)
    rng = keyed_random(random_seed, "trustee", category, number)
    given = levels(DifficultyRules(), rng.randint(lowest, HIGHEST), rng.getrandbits(32), 0, number)
    task = draw_task(environment.repository, given, rng.getrandbits(32), 0, number)
    region = "trained tools" if category == TRAINED else "other tools"
    return open_task(task, reference(environment), provenance={"region": region})


def held_out(random_seed: int) -> list[OpenTask]:
    """The held-out tasks of a random seed, `HELD_OUT` of each category; none is a near duplicate of
    another."""

    def draw(purpose: str, place: int) -> OpenTask:
        seed = keyed_random(random_seed, purpose).getrandbits(32)
        return drawn(environments, (TRAINED, OTHERS)[place % 2], seed, place)

    with Environments() as environments:
        return data_set(0, 2 * HELD_OUT, draw)


def careless(
    task: OpenTask, dialect: Dialect, carelessness: float, rng: random.Random
) -> Iterator[str]:
    """The replies of a teacher that asks for what is hidden and makes the expected calls, as early
    as the user's requests come; or, in `carelessness` of the tasks, answers at once, leaves the
    last call out, or asks nothing and guesses a value."""
    assert isinstance(task.user, Persona)
    calls = list(task.goal_calls)
    asks = list(task.provenance["hidden"])
    small, more = divmod(len(calls), turns := 1 + len(task.user.further))
    flaw = rng.choice(FLAWS) if rng.random() < carelessness else ""
    if flaw == "idle":
        calls = []
        asks = []
    elif flaw == "short":
        calls.pop()
    elif flaw == "guess":
        asks = []
        names = list(calls[0].arguments)
        guessed = {rng.choice(names): rng.choice(WORDS)} if names else {}
        calls[0] = Call(calls[0].name, {**calls[0].arguments, **guessed})
    if asks:
        yield dialect.answer(f"please tell {' , '.join(asks)} ?")
    for turn in range(turns):
        part = [calls.pop(0) for _ in range(min(len(calls), small + (turn < more)))]
        yield from ([dialect.write(part)] if part else [])
        yield dialect.answer(DONE)


def demonstrations(
    random_seed: int, dialect: Dialect, carelessness: float, count: int, lowest: int = LOWEST
) -> list[Trace]:
    """Conversations of the teacher, over both categories and the difficulties from `lowest`; of no
    task that a run has."""
    rng = keyed_random(random_seed, "careless teacher")
    shown = rng.getrandbits(60)
    with Environments() as environments:
        players = Players(environments)
        tasks = [
            drawn(environments, (TRAINED, OTHERS)[number % 2], shown, number, lowest)
            for number in range(count)
        ]
        left = [careless(task, dialect, carelessness, rng) for task in tasks]

        def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
            return [Reply(next(left[job], DONE)) for job, _ in waiting]

        return run_lockstep([players.job(task, dialect, max_steps=8) for task in tasks], complete)


def warm_start(values: Values, folder: Path) -> None:
    """Makes the policy with which every run begins, as nano's other warm starts are made, where it
    is not there."""
    steps: int = values["policy"]["warm_start_steps"]
    from tokenizers import Regex

    from rods.trainer import torch_settings  # torch, which a look at the table does not need
    from rods.trainer.chat import Chat
    from rods.trainer.nano import model as network, warm_start as recipe
    from rods.trainer.nano.supervised import encode, fit, in_batches

    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "config.json").exists():
            return
        config = parse_config(
            {"policy": {"dialect": values["policy"]["dialect"]}}, where="the warm start"
        )
        torch_settings.settle_threads(config.operation, otherwise=1)
        dialect = load(config.policy.dialect)
        careful = round(CAREFUL * steps)
        parts = (
            (0.0, careful, HIGHEST // 2),
            (config.policy.carelessness, steps - careful, LOWEST),
        )
        shown = [
            demonstrations(part, dialect, carelessness, recipe.SEQUENCES * count, lowest)
            for part, (carelessness, count, lowest) in enumerate(parts)
        ]
        texts = [
            ("" if message.role == "assistant" else " ") + message.content
            for traces in shown
            for trace in traces
            for message in trace.messages
        ]
        chat = Chat(network.build_tokenizer(texts, Regex(PARTS), ENTRIES), folder)
        encoded = [[encode(chat, trace) for trace in traces] for traces in shown]
        fresh = network.fresh(chat.tokenizer, 0)
        batches = in_batches(chat.pad, encoded, recipe.SEQUENCES, keyed_random(0, "batches"))
        optimizer = torch_settings.make_optimizer("muon", fresh, recipe.LEARNING_RATE, recipe.REST)
        fit(fresh, batches, optimizer, steps=steps, warm_up=recipe.WARM_UP)
        making = Path(f"{folder}.making")
        shutil.rmtree(making, ignore_errors=True)
        chat.tokenizer.save_pretrained(making)
        fresh.save_pretrained(making)
        making.rename(folder)


def measured_with_drawn_tasks(path: Path, condition: str, seed: int, values: Values) -> Line:
    """As `measured`, in the current folder, with the held-out tasks of this random seed; and the
    difficulty at the end, and the highest that was met."""
    folder = Path.cwd()
    for category in (TRAINED, OTHERS):
        tools_with_words(category, folder / category)
    warm_start(values, folder / values["policy"]["model"])
    place = folder / path.name
    tasks = folder / values["data"]["tasks"]
    tasks.write_bytes(b"".join(orjson.dumps(task.as_json()) + b"\n" for task in held_out(seed)))
    http = values.get("simulation", {}).get("tools") == "model"
    with (
        Stub(Script(answer="bench.fixtures.llm_stub.players:answer"), port=PORT + seed)
        if http
        else nullcontext()
    ):
        line = measured(place, condition, seed, values)
    met = [record["difficulty"] for record in read(place / DRAWN)]
    groups = [
        group
        for step in RunState(Run.open(place), every_step=True).steps()
        for group in step.groups
    ]  # drawn ones are no pool's
    varied = _mean(len({one.resolved for one in group.rollouts}) > 1 for group in groups)
    return {
        **line,
        "varied": round(varied, 4),
        "difficulty": {"last": met[-1], "highest": max(met)},
    }


COLUMNS = ("all", "trained tools", "other tools")


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """Held-out reward at start and end, and the difficulty that was reached, as Markdown."""
    if not lines:
        return
    by_name = by_condition(lines)
    columns = [
        "condition",
        "seeds",
        "start",
        "end",
        "gained",
        "with its own tools",
        "with other tools",
    ]
    columns += ["gained more than without", "difficulty at the end", "highest", "groups that vary"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name in study.conditions:
        if not (mine := by_name.get(name)):
            continue
        every = list(mine.values())
        anchor = by_name.get(study.anchor, {})
        over = [
            line["end"]["all"] - anchor[seed]["end"]["all"]
            for seed, line in mine.items()
            if seed in anchor
        ]
        cells = [
            name,
            str(len(every)),
            *(f"{_mean(line[which]['all'] for line in every):.3f}" for which in ("start", "end")),
            *(
                signed(estimate([line["end"][part] - line["start"][part] for line in every]))
                for part in COLUMNS
            ),
            signed(estimate(over)) if over and name != study.anchor else "",
            *(
                f"{_mean(line['difficulty'][which] for line in every):.0f}"
                for which in ("last", "highest")
            ),
            f"{_mean(line['varied'] for line in every):.0%}",
        ]
        yield f"| {' | '.join(cells)} |"


def _mean(values: Iterator[Any]) -> float:
    return float(np.mean(list(values)))


if __name__ == "__main__":
    (RUNS / "nano_trustee").mkdir(parents=True, exist_ok=True)
    # tool folders and weights are looked for from the current folder
    os.chdir(RUNS / "nano_trustee")
    main(STUDY, table, quick=("no curriculum", "curriculum"), train=measured_with_drawn_tasks)
