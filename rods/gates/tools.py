"""Gate 2 (004 Appendix G): every ground-truth call names a tool that the policy can see in that turn."""

from __future__ import annotations

from rods.environments.base import Environment
from rods.gates.reason import Reason
from rods.tasks import Task


def tools(environment: Environment, task: Task) -> list[Reason]:
    """Why the task's tools do not fit; empty when they do. A held-out tool counts from the turn of its return."""
    known = environment.tools()
    reasons = [Reason(f"the environment has no tool {name!r}") for name in task.tools if name not in known]
    until = {name: turn for turn, names in task.held_out.items() for name in names}
    for turn, calls in enumerate(task.calls):
        visible = set(task.tools_at(turn))
        for index, call in enumerate(calls):
            if call.name in visible:
                continue
            why = (
                f"is held out until turn {until[call.name]}" if call.name in until else "is not among the task's tools"
            )
            reasons.append(Reason(f"{call.name} {why}", turn, index))
    return reasons
