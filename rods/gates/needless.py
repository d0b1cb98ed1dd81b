"""Calls that nobody needs, by execution: what was shown already, what is so already, what another
call wipes out, and what stands for itself once only."""

from collections import Counter
from dataclasses import dataclass

from rods.calls import Call
from rods.canonical import canonical
from rods.composing.lexicon import lexicon
from rods.environments.base import Environment, Instance, Results
from rods.faults import Reason
from rods.tasks import Task

SOON = 1  # turns with calls after which what is undone counts as a change of mind


@dataclass(slots=True)
class _Write:
    call: Call
    served: int  # turns with calls before it
    without: Instance  # the world in which it was never made


def needless(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """Calls that a policy has reason not to make, where worlds can be copied and compared:

    - a turn in which each call was made before, with this result, and nothing of its class has
      changed since; where each result is judged, one such call is enough, and one whose result a
      change has shown;
    - a call that sets what is set, of a tool that has changed something before;
    - a call after which the world is as if an earlier one of this turn or the last had never been
      made, and nothing between told the difference; or any earlier one, where the later leaves an
      argument out that it gave: a default undoes what the user asked for;
    - a call that comes `once`, again."""
    features = environment.features
    if not (features.fork and features.state_visible and features.deterministic):
        return []
    catalogue = lexicon(environment).catalogue
    once = catalogue.once if catalogue else {}
    tools = environment.tools()
    instance = environment.reset(task.state)
    versions = Counter[str]()  # changes so far, by class
    shown = set[tuple[bytes, str, str, int]]()  # call (none: a change), text, class, version
    writes: list[_Write] = []
    setters = set[str]()  # tools that changed something
    reasons: list[Reason] = []
    served = 0
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
            record = (b"" if changed else canonical(call.as_json()), result.text, *now)
            told = (b"", *record[1:]) in fresh and isinstance(result.value, (dict, list))
            if not changed and (record in shown or told):
                known.append(Reason(f"{call.name} shows what was shown already", turn, index))
            fresh.add(record)
            if not changed and call.name in setters:
                reasons.append(Reason(f"{call.name} sets what is so already", turn, index))
            if changed:
                setters.add(call.name)
            left = []
            for write in writes:
                same_text = write.without.call(call).text == result.text
                soon = served - write.served <= SOON
                undone = write.call.name == call.name and not (
                    write.call.arguments.keys() <= call.arguments.keys()
                )
                if changed and (soon or undone) and instance.same_state(write.without):
                    why = f"{call.name} undoes {write.call}"
                    reasons.append(Reason(why, turn, index))
                elif same_text:
                    left.append(write)
            names = once.get(call.name, ())
            key = [call.arguments.get(name) for name in names]
            made = [*task.calls[:turn], calls[:index]]
            if names and any(
                call.name == other.name and key == [other.arguments.get(name) for name in names]
                for each in made
                for other in each
            ):
                reasons.append(Reason(f"{call.name} comes a second time for {key}", turn, index))
            writes = [*left, _Write(call, served, before)] if changed else left
        shown = fresh
        served += bool(calls)
        if features.reads_judged == "all" or len(known) == len(calls):
            reasons += known
    return reasons
