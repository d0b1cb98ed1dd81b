"""Calls that nobody needs, by execution: what was shown already, what is so already, what another
call wipes out, and what stands for itself once only."""

from collections import Counter
from typing import Any

from rods.analysis.containment import key_of, leaves
from rods.calls import Call
from rods.canonical import canonical
from rods.composing.lexicon import lexicon
from rods.environments.base import Environment, Instance, Results
from rods.environments.failing import value_of
from rods.faults import Reason
from rods.tasks import Task


def needless(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """Calls that a policy has reason not to make, where worlds can be copied and compared:

    - a turn in which each call was made before, with this result, and nothing of its class has
      changed since; where each result is judged, one such call is enough, and one whose result
      stands in what a change has shown;
    - a call that leaves an argument out and so undoes what an earlier one gave there, when nothing
      between told the difference: a default that nobody asked for;
    - a call that comes `once`, again."""
    features = environment.features
    if not (features.fork and features.state_visible and features.deterministic):
        return []
    catalogue = lexicon(environment).catalogue
    once = catalogue.once if catalogue else {}
    tools = environment.tools()
    instance = environment.reset(task.state)
    versions = Counter[str]()  # changes so far, by class
    shown = set[tuple[bytes, str, str, int]]()  # call, text, class, version
    told: list[tuple[str, int, set[Any]]] = []  # what a change showed: class, version, leaves
    # of tools with defaults, each with the world in which it was never made
    writes: list[tuple[Call, Instance]] = []
    made = set[bytes]()  # of what comes once
    reasons: list[Reason] = []
    for turn, (calls, seen) in enumerate(zip(task.calls, results, strict=True)):
        known: list[Reason] = []
        fresh = set(shown)
        for index, (call, result) in enumerate(zip(calls, seen, strict=True)):
            tool = tools[call.name]
            before = instance if tool.reads else instance.fork()
            instance.call(call)
            changed = before is not instance and not instance.same_state(before)
            versions[tool.group] += changed
            now = (tool.group, versions[tool.group])
            record = (canonical(call.as_json()), result.text, *now)
            own = {(name, key_of(leaf)) for name, leaf in leaves(value_of(result))}
            within = any(own and own <= held for *at, held in told if (*at,) == now)
            if tool.reads and (record in shown or within):
                known.append(Reason(f"{call.name} shows what was shown already", turn, index))
            fresh.add(record)
            told += [(*now, own)] if changed else []
            told_nothing = []
            for write, without in writes:
                same_text = without.call(call).text == result.text
                again = changed and write.name == call.name
                left_out = again and not write.arguments.keys() <= call.arguments.keys()
                if left_out and instance.same_state(without):
                    why = f"{call.name} leaves out what {write} gave, and undoes it"
                    reasons.append(Reason(why, turn, index))
                elif same_text:
                    told_nothing.append((write, without))
            writes = told_nothing
            if changed and not all(parameter.required for parameter in tool.parameters):
                writes.append((call, before))
            if call.name in once:
                key = canonical([call.name, *map(call.arguments.get, once[call.name])])
                if key in made:
                    reasons.append(Reason(f"{call.name} comes a second time", turn, index))
                made.add(key)
        shown = fresh
        if features.reads_judged == "all" or len(known) == len(calls):
            reasons += known
    return reasons
