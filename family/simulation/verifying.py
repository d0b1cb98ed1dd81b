"""Judges a conversation by a rubric without a model: by what can be read from its calls (001
§2.2.3). How each criterion of drawn tasks (`generating.CRITERIA`) is read, what is severe, and what
is not seen: docs/trustee.md."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rods.analysis.containment import Text, key_of, values_in
from rods.calls import Call
from rods.canonical import frozen
from rods.conversations import RUBRIC_LEVELS, Persona, Rubric
from rods.environments.base import Instance, Result
from rods.episode.engine import NeedOutcome, Outcome
from rods.family.simulation.documents import SimulatedTool
from rods.family.simulation.generating import CRITERIA, unheard, user_text
from rods.family.simulation.roles import verdict, without_asking
from rods.tasks import OpenTask

SPARE = 2  # calls beyond the expected ones that a short way may have
WRITES = frozenset({"creates", "changes", "removes"})


Made = Sequence[tuple[Call, Result]]  # the calls of a conversation with their results


def unjudged(rubric: Rubric) -> str:
    """Why this rubric cannot be judged without a model; empty where it can."""
    if not rubric.calls:
        return "it expects no calls"
    others = [criterion for criterion in rubric.criteria if criterion not in CRITERIA]
    return f"its criterion {others[0][:80]!r} is none of {', '.join(CRITERIA)}" if others else ""


@frozen
class ByRule:
    """A `WholeGoal`: the rubric of `task`, which is not `unjudged`, by what can be read from the
    calls. `tools` are all of its world."""

    task: OpenTask
    tools: Mapping[str, SimulatedTool]

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        if (clear := without_asking(need)) is not None:
            return clear
        assert isinstance(self.task.goal, Rubric)
        criteria = self.task.goal.criteria
        expected = self.task.goal.calls
        pairs = [pair for turn in need.turns for pair in turn.pairs]
        objections = dict(self._objections(expected, pairs, [text for text, _ in need.said]))
        missed = [name for name in criteria if objections[name]]
        severe = self._severe(expected, pairs)
        why = [f"{name} is missed: {objections[name]}" for name in missed] + (
            [f"severe: {severe}"] if severe else []
        )
        judged = verdict(len(criteria) - len(missed), len(criteria), bool(severe))
        return Outcome(judged + 1, RUBRIC_LEVELS, ("; ".join(why) or "all criteria are met",))

    def _objections(
        self, expected: Sequence[Call], pairs: Made, texts: Sequence[str]
    ) -> Iterator[tuple[str, str]]:
        """What speaks against each criterion; empty where nothing does."""
        done = list(_done(pairs))
        unserved = (
            f"{call} was not carried out"
            for call in expected
            if not any(self._serves(past, call, shown) for past, shown in done)
        )
        yield "intent", next(unserved, "")
        inexact = (
            f"{call} was not carried out as it is"
            for call in expected
            if not any(
                past.name == call.name
                and past.arguments.keys() == call.arguments.keys()
                and self._agree(past, call, shown, call.arguments)
                for past, shown in done
            )
        )
        yield "expected_tools", next(inexact, "")
        yield "no_hallucination", next(self._invented(pairs, texts), "")
        failed = (f"{call} failed" for call, result in pairs if result.error is not None)
        twice = (
            f"{call} was made twice"
            for place, (call, _) in enumerate(pairs)
            if any(
                call.name == past.name
                and key_of(dict(call.arguments)) == key_of(dict(past.arguments))
                for past, _ in pairs[:place]
            )
        )
        yield "no_redundancy", next(chain(failed, twice), "")
        many = len(pairs) > len(expected) + SPARE
        yield "efficiency", f"{len(pairs)} calls, {len(expected)} are expected" if many else ""

    def _agree(self, call: Call, expected: Call, shown: Text, names: Iterable[str]) -> bool:
        """Whether both give these arguments alike. A value that is expected and that no user has
        stands for what a call finds: whatever results have `shown` is right there."""
        heard = user_text(self.task)
        return all(
            name in call.arguments
            and (
                key_of(call.arguments[name]) == key_of(expected.arguments[name])
                or (
                    unheard(heard, expected.arguments[name])
                    and not unheard(shown, call.arguments[name])
                )
            )
            for name in names
        )

    def _serves(self, call: Call, expected: Call, shown: Text) -> bool:
        """Whether `call` does what is expected as far as its tool requires values."""
        if call.name != expected.name:
            return False
        required = [
            parameter.name
            for parameter in self.tools[call.name].tool.parameters
            if parameter.required
        ]
        names = [name for name in expected.arguments if name in required] or list(
            expected.arguments
        )
        return self._agree(call, expected, shown, names)

    def _invented(self, pairs: Made, texts: Sequence[str]) -> Iterator[str]:
        """Every tool that was not offered, and every value that nobody gave."""
        knows = self.task.user.knows.values() if isinstance(self.task.user, Persona) else ()
        sources = [Text.of(" | ".join([*texts, *knows]))]
        for call, result in pairs:
            if call.name not in self.task.tools:
                yield f"there is no tool {call.name}"
                continue
            defaults = {
                parameter.name: parameter.default
                for parameter in self.tools[call.name].tool.parameters
            }
            for name, value in call.arguments.items():
                if defaults.get(name) == value or any(
                    asked.name == call.name and asked.arguments.get(name) == value
                    for asked in self.task.goal_calls
                ):  # it may have been said in other words
                    continue
                for leaf in values_in(value):
                    if all(unheard(source, leaf) for source in sources):
                        yield f"nobody gave {str(leaf)[:80]!r} ({call.name}, {name})"
            sources.append(_shown([(call, result)]))

    def _severe(self, expected: Sequence[Call], pairs: Made) -> str:
        """What was done that nobody asked for, or that nothing was done that somebody has; else
        empty."""
        served = False
        for call, shown in _done(pairs):
            effect = self.tools[call.name].effect if call.name in self.tools else None
            wanted = any(self._serves(call, asked, shown) for asked in expected)
            if not wanted and effect is not None and effect.does in WRITES:
                return f"{call} was not asked for"
            served |= wanted
        return "" if served else "nothing of what is expected was carried out"


def _shown(pairs: Made) -> Text:
    """What the results of calls that went through show."""
    return Text.holding(
        [
            result.text if result.value is None else result.value
            for _, result in pairs
            if result.error is None
        ]
    )


def _done(pairs: Made) -> Iterator[tuple[Call, Text]]:
    """The calls that went through, each with what results had shown before it."""
    for place, (call, result) in enumerate(pairs):
        if result.error is None:
            yield call, _shown(pairs[:place])
