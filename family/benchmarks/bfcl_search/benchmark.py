"""BFCL V4's web search as a benchmark (rods.family.benchmarks.benchmarks): questions of several
steps, and tools that search the web and read its pages. In one half of the items what is found
comes with the words around it."""

from functools import cached_property

from rods.episode.drivers import Job
from rods.family.benchmarks.bfcl.harness import right_answers
from rods.family.benchmarks.bfcl.questions import QuestionMaker, Questions
from rods.family.benchmarks.bfcl_search.web import SERPAPI, Searcher, Web, WebTools, check_installed
from rods.family.benchmarks.contract import item
from rods.family.benchmarks.folder import Episode
from rods.tasks import AnyTask, Task
from rods.worlds.bfcl import wheel

BARE = "web_search_no_snippet"


class SearchMaker(QuestionMaker):
    """The `Maker` of such questions."""

    benchmark: "WebSearch"
    _web: Web | None = None

    def search_by(self, key: str, url: str, patience: float) -> None:
        check_installed()
        self._web = Web(url or SERPAPI, key, patience)

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        tools = self.benchmark.tools
        searcher = Searcher(tools, self._web, snippets=task.provenance["kind"] != BARE)
        waits = self._web is not None
        return self.question(task, self.answer_form, tools, searcher, waits)


class WebSearch(Questions):
    """The benchmark (rods.family.benchmarks.contract)."""

    name = "bfcl_search"
    title = "BFCL web search"
    kinds = ("web_search_base", BARE)
    needs = {"search": kinds}
    makes = SearchMaker

    @property
    def environment(self) -> str:
        return self.tools.hash

    @cached_property
    def tools(self) -> WebTools:
        return WebTools()

    @cached_property
    def by_id(self) -> dict[str, Task]:
        entries = wheel.read_json_lines(wheel.path(), "data/BFCL_v4_web_search.json")
        allowed = right_answers("web_search")
        return {
            (name := entry["id"].replace("web_search", kind)): item(
                self.tools,
                name,
                [message["content"] for turn in entry["question"] for message in turn],
                self.data,
                kind=kind,
                answers=allowed[entry["id"]],
            )
            for kind in self.kinds
            for entry in entries
        }
