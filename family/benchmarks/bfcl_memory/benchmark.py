"""BFCL V4's memory as a benchmark (rods.family.benchmarks.benchmarks): in some conversations a
policy writes down what matters; later, in each question, it has nothing of them but its memory.

The conversations of a scenario are played one after the other, each goes on with the memory that
the one before has left, and every question with the last one's. They are items without a score;
what is left stands in their records, so that a stopped evaluation goes on from there."""

from dataclasses import replace
from functools import cached_property
from typing import Any

from rods.environments.registry import declared
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.family.benchmarks.bfcl.benchmark import CUT
from rods.family.benchmarks.bfcl.harness import right_answers
from rods.family.benchmarks.bfcl.questions import QuestionMaker, Questions
from rods.family.benchmarks.bfcl_memory.memory import MemoryBackend, MemoryWorld
from rods.family.benchmarks.bfcl_memory.vectors import VectorBackend
from rods.family.benchmarks.contract import item
from rods.family.benchmarks.episodes import ItemJob
from rods.family.benchmarks.folder import Episode, Settings
from rods.tasks import AnyTask, Task
from rods.worlds.bfcl import wheel

NAME = "bfcl_memory"
VECTOR = "vector"
DECLARED = declared("rods.family.benchmarks", "benchmark.toml")[NAME]


class MemoryMaker(QuestionMaker):
    """The `Maker` of memories; its line leads to their encoder. The result of a conversation before
    questions is {"outputs": by turn and step, "memory": what it has left}; one that did not come to
    its end leaves what it began with, as in the harness."""

    def __init__(self, benchmark: "Memories", settings: Settings) -> None:
        super().__init__(benchmark, settings)
        # whose encoder is this evaluation's
        self._vectors = VectorBackend(VECTOR)
        self._backends = {**benchmark.backends, VECTOR: self._vectors}

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = task.provenance["backend"]
        backend = self._backends[name]
        memory = backend.reset(before.result["memory"] if before else None)
        memory.begun = memory.snapshot()
        self._vectors.encoder.line = self.line
        waits = name == VECTOR and self.line is not None
        system = self._system(task, memory)
        return self.question(task, system, backend, memory, waits)

    def _system(self, task: AnyTask, memory: MemoryWorld) -> str:
        about = task.provenance
        kind = "UNIFIED" if about["backend"] == "rec_sum" else "CORE_ARCHIVAL"
        text: str = self.words.texts[f"MEMORY_BACKEND_INSTRUCTION_{kind}"].format(
            scenario_setting=self.words.texts["MEMORY_AGENT_SETTINGS"][about["scenario"]],
            memory_content=memory.shown,
        )
        return f"{text}\n\n{self.answer_form}" if about["answers"] else text

    def result(self, job: Job, trace: Trace) -> Any:
        assert isinstance(job, ItemJob)
        outputs = super().result(job, trace)
        if job.task.provenance["answers"]:
            return outputs
        memory: MemoryWorld = job.own
        left = memory.begun if trace.end in CUT else memory.snapshot()
        return {"outputs": outputs, "memory": left}


class Memories(Questions):
    """The benchmark (rods.family.benchmarks.contract). The provenance of a task has its backend,
    scenario and `answers` (none: a conversation before questions), and the conversation `before`
    it."""

    name = NAME
    title = "BFCL memory"
    kinds = [f"memory_{backend}" for backend in DECLARED["backends"]]
    categories = [*kinds, *(f"{kind}_prereq" for kind in kinds)]
    needs = {"encoder": [f"memory_{VECTOR}"]}
    makes = MemoryMaker

    @property
    def environment(self) -> str:
        return " ".join(backend.hash for backend in self.backends.values())

    @cached_property
    def backends(self) -> dict[str, MemoryBackend]:
        return {
            name: (VectorBackend if name == VECTOR else MemoryBackend)(name)
            for name in DECLARED["backends"]
        }

    @cached_property
    def by_id(self) -> dict[str, Task]:
        tasks: dict[str, Task] = {}
        allowed = right_answers("memory")
        parts = [f"memory_prereq_conversation/memory_{name}" for name in DECLARED["scenarios"]]
        entries = [
            entry
            for part in (*parts, "BFCL_v4_memory")
            for entry in wheel.read_json_lines(wheel.path(), f"data/{part}.json")
        ]
        for backend, world in self.backends.items():
            last: dict[str, str] = {}  # conversation of a scenario
            for entry in entries:
                kind = f"memory_{backend}"
                name = entry["id"].replace("memory", kind)
                scenario = entry["scenario"]
                right = allowed.get(entry["id"], ())
                tasks[name] = item(
                    world,
                    name,
                    [message["content"] for turn in entry["question"] for message in turn],
                    self.data,
                    kind=kind,
                    backend=backend,
                    scenario=scenario,
                    answers=right,
                    before=last.get(scenario),
                )
                if not right:
                    last[scenario] = name
        return tasks

    def tasks(self) -> list[AnyTask]:
        return [task for task in self.by_id.values() if task.provenance["answers"]]

    def before(self, task: AnyTask) -> AnyTask | None:
        return self.by_id.get(task.provenance["before"])

    def written(self, episode: Episode) -> Any:
        outputs = episode.result["outputs"] if isinstance(episode.result, dict) else episode.result
        return super().written(replace(episode, result=outputs))
