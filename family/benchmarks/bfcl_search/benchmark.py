"""BFCL V4's web search as a benchmark (rods.family.benchmarks.benchmarks): questions of several
steps, and tools that search the web and read its pages. In one half of the items what is found
comes with the words around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rods.environments.base import reference
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.family.benchmarks.bfcl import results
from rods.family.benchmarks.bfcl.dialects import Native, Prompted
from rods.family.benchmarks.bfcl.harness import harness, taken
from rods.family.benchmarks.bfcl.questions import Questions, Unjudged
from rods.family.benchmarks.bfcl_search.web import (
    OWNER,
    SERPAPI,
    Searcher,
    Web,
    WebTools,
    check_installed,
)
from rods.family.benchmarks.folder import Episode, Settings
from rods.tasks import AnyTask, Task
from rods.worlds.bfcl import wheel

BARE = "web_search_no_snippet"


class WebSearch(Questions):
    """See `rods.family.benchmarks.benchmarks.Benchmark`, and `Needing`. The provenance of a task
    has its kind."""

    name = "bfcl_search"
    title = "BFCL web search"
    environment = property(lambda self: self.tools.hash)
    kinds: Sequence[str] = ("web_search_base", BARE)
    categories: Sequence[str] = kinds
    needs: Mapping[str, Sequence[str]] = {"search": kinds}

    @cached_property
    def tools(self) -> WebTools:
        return WebTools()

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        made: dict[str, Task] = {}
        entries = wheel.read_json_lines(wheel.path(), "data/BFCL_v4_web_search.json")
        answers = wheel.read_json_lines(
            wheel.path(), "data/possible_answer/BFCL_v4_web_search.json"
        )
        allowed = {answer["id"]: answer["ground_truth"] for answer in answers}
        for kind in self.kinds:
            for entry in entries:
                name = entry["id"].replace("web_search", kind)
                said = tuple(message["content"] for turn in entry["question"] for message in turn)
                about = {"id": name, "version": f"{wheel.PACKAGE} {wheel.VERSION}", "kind": kind}
                made[name] = Task(
                    reference(self.tools),
                    "base",
                    said,
                    ((),) * len(said),
                    tuple(self.tools.tools()),
                    state={"entry": name},
                    split="test",
                    provenance={**about, "answers": allowed[entry["id"]]},
                )
        return made

    def kind(self, task: AnyTask) -> str:
        return str(task.provenance["kind"])

    def maker(self, settings: Settings) -> "SearchMaker":
        if settings.documents != "full":
            raise UserError(
                "these tools have BFCL's documents", where="--documents", remedy="leave it out"
            )
        return SearchMaker(self, settings)


@dataclass(frozen=True)
class SearchJob(Job):
    """A job with tools that search."""

    searcher: Searcher | None = None

    @property
    def trouble(self) -> str:
        return self.searcher.trouble if self.searcher is not None else ""


class SearchMaker:
    """The `Maker` of such questions (`Searching`)."""

    def __init__(self, benchmark: WebSearch, settings: Settings) -> None:
        self.settings = settings
        self._tools = benchmark.tools
        self._web: Web | None = None
        words = harness(wheel.path())
        kind = Native if settings.form == "native" else Prompted
        self._steps = words.steps
        self._dialect = kind(
            words.of(self._tools.documents, BARE), dict.fromkeys(self._tools.tools(), OWNER)
        )
        self._asked = taken(wheel.path(), "constants/default_prompts.py")
        self._asked = self._asked["ADDITIONAL_SYSTEM_PROMPT_FOR_AGENTIC_RESPONSE_FORMAT"]

    def search_by(self, key: str, url: str, patience: float) -> None:
        check_installed()
        self._web = Web(url or SERPAPI, key, patience)

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        searcher = Searcher(self._tools, self._web, snippets=task.provenance["kind"] != BARE)
        return SearchJob(
            replace(task, system=self._asked, id=""),
            self._tools,
            self._dialect,
            Unjudged(),
            max_steps=self._steps,
            visible_only=False,
            world=lambda: searcher,
            waits=self._web is not None,
            searcher=searcher,
        )

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        result: Any = results.outputs(trace, job.dialect)
        return Episode(
            job.task.provenance["id"], sample, self.settings.form, result, trace.end, cut
        )
