"""BFCL V4's memory as a benchmark (rods.family.benchmarks.benchmarks): in some conversations a
policy writes down what matters; later, in each question, it has nothing of them but its memory.

The conversations of a scenario are played one after the other, each goes on with the memory that
the one before has left, and every question with the last one's. They are items without a score;
what is left stands in their records, so that a stopped evaluation goes on from there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from rods.environments.base import reference
from rods.environments.registry import declared
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.episode.model_thread import ModelThread
from rods.errors import UserError
from rods.family.benchmarks.bfcl import results
from rods.family.benchmarks.bfcl.benchmark import CUT
from rods.family.benchmarks.bfcl.dialects import Native, Prompted
from rods.family.benchmarks.bfcl.harness import harness, taken
from rods.family.benchmarks.bfcl.questions import Questions, Unjudged
from rods.family.benchmarks.bfcl_memory.memory import MemoryBackend, MemoryWorld
from rods.family.benchmarks.bfcl_memory.vectors import VectorBackend
from rods.family.benchmarks.folder import Episode, Settings
from rods.tasks import AnyTask, Task
from rods.worlds.bfcl import wheel

NAME = "bfcl_memory"
VECTOR = "vector"
DECLARED = declared("rods.family.benchmarks", "benchmark.toml")[NAME]


class Memories(Questions):
    """See `rods.family.benchmarks.benchmarks.Benchmark`, `Chained` and `Needing`. The provenance of
    a task has its backend, scenario and `answers` (none: a conversation before questions), and the
    conversation `before` it."""

    name = NAME
    title = "BFCL memory"
    environment = property(
        lambda self: " ".join(backend.hash for backend in self.backends.values())
    )
    kinds: Sequence[str] = [f"memory_{backend}" for backend in DECLARED["backends"]]
    categories: Sequence[str] = [*kinds, *(f"{kind}_prereq" for kind in kinds)]
    needs: Mapping[str, Sequence[str]] = {"encoder": [f"memory_{VECTOR}"]}

    @cached_property
    def backends(self) -> dict[str, MemoryBackend]:
        return {
            name: (VectorBackend if name == VECTOR else MemoryBackend)(name)
            for name in DECLARED["backends"]
        }

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        made: dict[str, Task] = {}
        file = wheel.path()
        answers = wheel.read_json_lines(file, "data/possible_answer/BFCL_v4_memory.json")
        allowed = {answer["id"]: answer["ground_truth"] for answer in answers}
        parts = [f"memory_prereq_conversation/memory_{name}" for name in DECLARED["scenarios"]] + [
            "BFCL_v4_memory"
        ]
        entries = [
            entry for part in parts for entry in wheel.read_json_lines(file, f"data/{part}.json")
        ]
        for backend, world in self.backends.items():
            last: dict[str, str] = {}  # conversation of a scenario
            for entry in entries:
                name = entry["id"].replace("memory", f"memory_{backend}")
                scenario = entry["scenario"]
                known = {"answers": allowed.get(entry["id"], ()), "before": last.get(scenario)}
                said = tuple(message["content"] for turn in entry["question"] for message in turn)
                made[name] = Task(
                    reference(world),
                    "base",
                    said,
                    ((),) * len(said),
                    tuple(world.tools()),
                    state={"entry": name},
                    split="test",
                    provenance={
                        "id": name,
                        "version": f"{wheel.PACKAGE} {wheel.VERSION}",
                        "backend": backend,
                        "scenario": scenario,
                        **known,
                    },
                )
                if not known["answers"]:
                    last[scenario] = name
        return made

    def tasks(self) -> list[AnyTask]:
        return [task for task in self._tasks.values() if task.provenance["answers"]]

    def before(self, task: AnyTask) -> AnyTask | None:
        return self._tasks.get(task.provenance["before"])

    def kind(self, task: AnyTask) -> str:
        return f"memory_{task.provenance['backend']}"

    def maker(self, settings: Settings) -> "MemoryMaker":
        if settings.documents != "full":
            raise UserError(
                "the memory's tools have BFCL's documents",
                where="--documents",
                remedy="leave it out",
            )
        return MemoryMaker(self, settings)

    def written(self, episode: Episode) -> Any:
        outputs = episode.result["outputs"] if isinstance(episode.result, dict) else episode.result
        return super().written(replace(episode, result=outputs))


@dataclass(frozen=True)
class MemoryJob(Job):
    """A job that goes on with a memory, which has `begun` so."""

    memory: MemoryWorld | None = None
    begun: Mapping[str, Any] | None = None

    @property
    def trouble(self) -> str:
        return self.memory.trouble if self.memory is not None else ""


class MemoryMaker:
    """The `Maker` of memories, with a line to their encoder (`Listening`). The result of a
    conversation before questions is {"outputs": by turn and step, "memory": what it has left}; one
    that did not come to its end leaves what it began with, as in the harness."""

    def __init__(self, benchmark: Memories, settings: Settings) -> None:
        # whose encoder is this evaluation's
        self.settings = settings
        self._vectors = VectorBackend(VECTOR)
        self._backends = {**benchmark.backends, VECTOR: self._vectors}
        self._texts = taken(wheel.path(), "constants/default_prompts.py")
        words = harness(wheel.path())
        kind = Native if settings.form == "native" else Prompted
        self._steps = words.steps
        self._dialects = {
            name: kind(
                words.of(backend.documents, f"memory_{name}"),
                dict.fromkeys(backend.tools(), backend.owner),
            )
            for name, backend in benchmark.backends.items()
        }

    @property
    def line(self) -> ModelThread | None:
        return self._vectors.encoder.line

    @line.setter
    def line(self, line: ModelThread | None) -> None:
        self._vectors.encoder.line = line

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = task.provenance["backend"]
        memory = self._backends[name].reset(before.result["memory"] if before else None)
        return MemoryJob(
            replace(task, system=self._told(task, memory), id=""),
            self._backends[name],
            self._dialects[name],
            Unjudged(),
            max_steps=self._steps,
            visible_only=False,
            world=lambda: memory,
            waits=name == VECTOR and self.line is not None,
            memory=memory,
            begun=memory.snapshot(),
        )

    def _told(self, task: AnyTask, memory: MemoryWorld) -> str:
        about = task.provenance
        texts = self._texts
        kind = "UNIFIED" if about["backend"] == "rec_sum" else "CORE_ARCHIVAL"
        parts = {
            "scenario_setting": texts["MEMORY_AGENT_SETTINGS"][about["scenario"]],
            "memory_content": memory.shown,
        }
        told = texts[f"MEMORY_BACKEND_INSTRUCTION_{kind}"].format(**parts)
        asked = texts["ADDITIONAL_SYSTEM_PROMPT_FOR_AGENTIC_RESPONSE_FORMAT"]
        return f"{told}\n\n{asked}" if about["answers"] else str(told)

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        assert isinstance(job, MemoryJob) and job.memory is not None
        about = job.task.provenance
        result = cast(Any, results.outputs(trace, job.dialect))
        if not about["answers"]:
            result = {
                "outputs": result,
                "memory": job.begun if trace.end in CUT else job.memory.snapshot(),
            }
        return Episode(about["id"], sample, self.settings.form, result, trace.end, cut)
