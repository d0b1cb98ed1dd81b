"""Which calls of a single tool the world takes at a moment, found by trying: what is guessed from names says nothing of
that. Calls are tried in copies of the world: reset, with the calls so far made again."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rods.analysis.flows import value_of
from rods.analysis.profile import Position
from rods.calls import Call
from rods.canonical import canonical
from rods.composing.bind import Choice, Chooser, random_chooser
from rods.composing.catalogue import LEFT_OUT, Catalogue, Scene
from rods.daemon.authors.catalogue_free import fitting_values, returned_values
from rods.environments.base import Environment, Result
from rods.errors import InfrastructureError
from rods.gates.referents import is_amount, keys_of

PROBES = (40, 400)  # calls that are tried for one place: of the values listed, then of all that fit
SLOW_PROBES = (8, 8)  # where each waits for another process
FOUND = 4  # after so many that work no other is looked for


@dataclass(frozen=True, slots=True)
class Probed:
    """The calls that worked, with their results; whether they take what an earlier call returned that should feed them;
    and what the world said to the last that did not work."""

    working: Sequence[tuple[Call, Result]] = ()
    fed: bool = False
    refusal: str = ""


@dataclass(slots=True)
class Prober:
    """Tries calls from one state on. `feeding`: which calls, counted through, should feed a place of the plan. Where
    worlds wait for another process, `tell` gets a line before each tool is tried."""

    environment: Environment
    catalogue: Catalogue
    state: Mapping[str, Any]
    feeding: Mapping[Position, Sequence[int]] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda line: None
    known: dict[bytes, Probed] = field(default_factory=dict)
    doing: str = "values"  # what it tries calls for
    calls: int = 0  # so far

    def each(self, what: str, items: Sequence[Any]) -> Iterator[Any]:
        """The items, of which each is said to be what is tried from then on."""
        for number, item in enumerate(items, 1):
            self.doing = f"{what} ({number} of {len(items)})"
            yield item

    def here(self, choice: Choice) -> Probed:
        """What the world takes at the place of a choice."""
        return self.at(choice.recipe.name, choice.scene, self.feeding.get((choice.turn, choice.place), ()))

    def at(self, tool: str, scene: Scene, feeders: Sequence[int] = ()) -> Probed:
        """What the world takes of `tool` after the calls of the scene; with a value that one of `feeders`, numbers of
        such calls, returned, where that works. Raises InfrastructureError when the machinery broke."""
        key = canonical([tool, list(feeders), [call.as_json() for call, _ in scene.calls]])
        if key not in self.known:
            if self.environment.features.waits:
                self.tell(f"tries calls in fresh worlds: {self.doing}, {tool}; {self.calls} calls so far")
            document = self.environment.tools()[tool]
            parameters = document.parameters
            domains = {each.name: self.catalogue.domains[f"{tool}.{each.name}"] for each in parameters}
            listed = {name: list(domain(scene)) for name, domain in domains.items()}
            wide = {each.name: [*listed[each.name], *fitting_values(each, scene)] for each in parameters}
            keys = keys_of([scene.state, *(value_of(result) for _, result in scene.calls)])
            made, fed = [scene.calls[number] for number in feeders], dict[str, list[Any]]()
            for each in parameters if feeders else ():
                invented = domains[each.name](Scene({}, {}, {}, {}))
                known = [value for value in listed[each.name] if value not in invented]
                returned = returned_values(document, each, known, wide[each.name], made)
                # how much is meant a user says: that a result has the number does not tell
                fed[each.name] = [value for value in returned if not is_amount(each.name, value, keys)]
            rng, tried = random.Random(tool), Probed()
            for slot in (slot for slot, values in fed.items() if values and not tried.working):
                tried = self._tried(tool, scene, listed | {slot: fed[slot]}, wide | {slot: fed[slot]}, rng)
            self.known[key] = replace(tried, fed=True) if tried.working else self._tried(tool, scene, listed, wide, rng)
        return self.known[key]

    def chooser(self, rng: random.Random) -> Chooser:
        """Takes at each place the arguments of one call that works there, and any values where none does."""
        chance, taken = random_chooser(rng), dict[Position, Mapping[str, Any] | None]()

        def choose(choice: Choice) -> Any:
            place = choice.turn, choice.place
            if place not in taken:
                working = self.here(choice).working
                taken[place] = rng.choice(working)[0].arguments if working else None
            arguments = taken[place]
            return chance(choice) if arguments is None else arguments.get(choice.slot, LEFT_OUT)

        return choose

    def _tried(
        self,
        tool: str,
        scene: Scene,
        listed: Mapping[str, Sequence[Any]],
        wide: Mapping[str, Sequence[Any]],
        rng: random.Random,
    ) -> Probed:
        """Of the values listed, and where none of these works, of all that fit."""
        working, instance, refusal, seen = list[tuple[Call, Result]](), None, "", set[bytes]()
        probes = SLOW_PROBES if self.environment.features.waits else PROBES
        for offered, most in zip((listed, wide), probes, strict=True):
            for _ in range(0 if working else most):
                arguments = {  # half of the optional ones are left out
                    name: rng.choice([value for value in values if value is not LEFT_OUT])
                    for name, values in offered.items()
                    if LEFT_OUT not in values or rng.random() < 0.5
                }
                call = Call(tool, arguments)
                if (written := canonical(call.as_json())) in seen:
                    continue
                seen.add(written)
                if instance is None:
                    instance = self.environment.reset(self.state)
                    for before, _ in scene.calls:
                        instance.call(before)
                self.calls += 1
                result = instance.call(call)
                if result.error == "infrastructure":
                    raise InfrastructureError(f"while trying {call}: {result.text}")
                if result.error is not None:
                    refusal = result.text
                    continue
                working.append((call, result))
                instance = None  # it has changed, perhaps
                if len(working) == FOUND:
                    break
        return Probed(working, refusal=refusal)
