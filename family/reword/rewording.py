"""An author for tasks that are only said anew: their calls and worlds stay, and what a turn
without calls lacks."""

from dataclasses import replace

from rods.analysis.containment import Text
from rods.analysis.flows import infer
from rods.canonical import Texts
from rods.composing.bind import spoken
from rods.composing.catalogue import Slot
from rods.composing.records import BoundCall, Draft, Plan, PlannedTurn
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.llm import LLMAuthor, forming, wording
from rods.daemon.authors.llm.forming import Gap, PartialTask
from rods.daemon.authors.llm.wording import UserValue, user_values
from rods.daemon.pipeline import PLAIN
from rods.environments.base import Environment, Results
from rods.tasks import Task, TaskType


class KeptTask(PartialTask):
    """The seed of the assignment in new words; on its way to its form, one in which nothing is
    missing yet."""

    def task(self) -> Task:
        seed = self.assignment.seed
        results = [[bound.result.text for bound in turn] for turn in self.draft.turns]
        whole = self.type == seed.type
        return replace(
            seed,
            type=self.type,
            script=self.script,
            calls=tuple(tuple(bound.call for bound in turn) for turn in self.draft.turns),
            later_tools=seed.later_tools if whole else {},
            reads=seed.reads if whole else None,
            provenance={**seed.provenance, "results": results},
            id="",
        )

    def removable_functions(self) -> list[Gap]:
        seed = self.assignment.seed
        turn = self.turn + 1
        return [Gap(self.request, seed.script[turn], (), seed.later_tools.get(turn, ()))]

    def omissible_values(self) -> list[UserValue]:
        """What the next turn is the first to say."""
        seed = self.assignment.seed
        turn = self.turn + 1
        return [
            value
            for value in user_values(self.context.environment.tools(), self.calls)
            if value.said_in([seed.script[turn]]) and not value.said_in(seed.script[:turn])
        ]


class Rewording(LLMAuthor):
    """The author of new words. `asked`: what the turns of the draft say now."""

    asked: Texts = ()

    async def rewrite(self, assignment: StagedAssignment, draft: Draft) -> Texts:
        return await wording.rewrite(self, assignment, draft, self.asked, ["anew"])

    async def form(
        self,
        assignment: StagedAssignment,
        draft: Draft,
        texts: Texts,
        type: TaskType,
        made: type[PartialTask] = KeptTask,
    ) -> Task:
        return await forming.form(self, assignment, draft, texts, type, made)


def drafted(environment: Environment, task: Task, results: Results) -> tuple[Draft, Texts]:
    """The task as a draft, and what its turns say: where one without calls asks for those of the
    next one, both texts are one."""
    flows = infer(environment.tools(), task, results)
    turns: list[tuple[BoundCall, ...]] = []
    asked: list[str] = []
    for turn, calls in enumerate(task.calls):
        text = task.script[turn]
        if task.type not in PLAIN and turn and not task.calls[turn - 1]:
            text = f"{task.script[turn - 1]} {'' if turn in task.later_tools else text}"
        said = Text.of(text)
        bound = [
            BoundCall(
                call,
                result,
                flow,
                call.name,
                {
                    name: Slot("", spoken(value), value=value)
                    for name, value in call.arguments.items()
                    if said.contains_exact(value)
                },
            )
            for call, result, flow in zip(calls, results[turn], flows[turn], strict=True)
        ]
        turns.append(tuple(bound))
        if calls or task.type in PLAIN:
            asked.append(text)
    plan = Plan((PlannedTurn((), ()),) * len(turns))
    return Draft(plan, task.state or {}, tuple(turns)), tuple(asked)
