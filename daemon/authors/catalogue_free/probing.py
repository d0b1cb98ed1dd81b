"""Which calls of a single tool the world takes at a moment, found by trying: what is guessed from
names says nothing of that. Calls are tried in copies of the world: reset, with the calls so far
made again."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod
from random import Random
from typing import Any

from rods.analysis.containment import Text, key_of, values_in
from rods.analysis.impostors import signs
from rods.analysis.profile import Position
from rods.analysis.schemas import limits, options
from rods.calls import Call
from rods.canonical import JsonMapping, canonical, frozen
from rods.composing.bind import Choice, Chooser, random_chooser
from rods.composing.catalogue import LEFT_OUT, Catalogue, Scene
from rods.daemon.authors.catalogue_free import fitting_values, names_of, returned_values
from rods.daemon.authors.state_shapes import State
from rods.environments.base import Environment, Instance, Result, kept, value_of
from rods.environments.replay import ReplayedWorld
from rods.errors import InfrastructureError
from rods.gates.values import Mention, is_amount, keys_of, mentions, referent

PROBES = (40, 400)  # calls that are tried for one place: of the values listed, then of all that fit
SLOW_PROBES = (8, 8)  # where each waits for another process
FOUND = 4  # after so many that work no other is looked for
SLOW_FOUND = 2
SEEN = 60  # values that earlier calls returned of which it is asked whether words point at them
POINTED = 20  # of these that are tried
STATES = 256  # of an environment, whose trials are remembered


@frozen
class Probed:
    """The calls that worked, with their results; the argument (`fed`, "" for none) in which they
    take what an earlier call returned that should feed them; the arguments that refuse what nobody
    has met (`existing`; where worlds wait, all that there are); and what the world said to the last
    that did not work, where it names none of the values that were tried."""

    working: Sequence[tuple[Call, Result]] = ()
    fed: str = ""
    existing: Sequence[str] = ()
    refusal: str = ""


@kept
def _known(environment: Environment) -> dict[bytes, dict[bytes, Probed]]:
    """The trials of an environment, by state."""
    return {}


def is_written_out(value: Any) -> bool:
    """Whether it is a whole result that could not be read, such as "{'sum': Decimal('3.5')}"."""
    return isinstance(value, str) and value[:1] in ("{", "[", "(") and value[-1:] in "}])"


def is_pointed_at(name: str, value: Any, met: Sequence[Mention], keys: Set[Any]) -> bool:
    """Whether a user need not say an argument's value that calls have returned: words can point at
    it, and it is not how much is meant."""
    each = values_in(value)
    meant = (referent(name, leaf, set(map(key_of, each)), met, keys) for leaf in each)
    return not is_amount(name, value, keys) and all(one is None or one.words for one in meant)


@dataclass(slots=True)
class Prober:
    """Tries calls from one state on. `feeding`: which calls, counted through, should feed a place
    of the plan. Where worlds wait for another process, `tell` gets a line before each tool is
    tried."""

    environment: Environment
    catalogue: Catalogue
    state: State
    feeding: Mapping[Position, Sequence[int]] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda line: None
    probes: dict[bytes, Probed] = field(init=False)
    doing: str = "values"  # what it tries calls for
    calls: int = 0  # so far
    shown: State | None = None  # by the probes, once they were asked
    spare: tuple[bytes, Instance] | None = None  # a world, and the calls that it stands behind

    def __post_init__(self) -> None:
        """Where worlds wait for another process, what was found out from a state holds for whoever
        comes back to it."""
        states = _known(self.environment) if self.environment.features.waits else {}
        self.probes = states.setdefault(canonical(self.state), {})
        while len(states) > STATES:
            states.pop(next(iter(states)), None)

    def each(self, what: str, items: Sequence[Any]) -> Iterator[Any]:
        """The items, of which each is said to be what is tried from then on."""
        for number, item in enumerate(items, 1):
            self.doing = f"{what} ({number} of {len(items)})"
            yield item

    def here(self, choice: Choice) -> Probed:
        """What the world takes at the place of a choice."""
        return self.at(
            choice.recipe.name, choice.scene, self.feeding.get((choice.turn, choice.place), ())
        )

    def at(
        self, tool: str, scene: Scene, feeders: Sequence[int] = (), *, fed_only: bool = False
    ) -> Probed:
        """What the world takes of `tool` after the calls of the scene; with a value that one of
        `feeders`, numbers of such calls, returned, where that works, and nothing else where it is
        asked about `fed_only`. Raises InfrastructureError when the machinery broke."""
        key = canonical([tool, list(feeders), [call.as_json() for call, _ in scene.calls]])
        if fed_only and key not in self.probes:
            key += b" fed only"
        if key not in self.probes:
            waits = self.environment.features.waits
            if waits:
                self.tell(
                    f"tries calls in fresh worlds: {self.doing}, {tool}; {self.calls} calls so far"
                )
            document = self.environment.tools()[tool]
            parameters = document.parameters
            domains = {
                parameter.name: self.catalogue.domains[f"{tool}.{parameter.name}"]
                for parameter in parameters
            }
            seen = replace(scene, state={**self._shown(), **scene.state})
            listed = {name: list(domain(seen)) for name, domain in domains.items()}
            own = names_of(self.environment.tools())
            fitting = {parameter.name: fitting_values(parameter, seen) for parameter in parameters}
            wide = {
                name: [
                    *listed[name],
                    *(value for value in values if isinstance(value, list) or value not in own),
                ]
                for name, values in fitting.items()
            }
            keys = keys_of([seen.state, *(value_of(result) for _, result in scene.calls)])
            met = [one for turn, made in enumerate(scene.calls) for one in mentions(turn, *made)]
            alone = {key_of(mention.value) for mention in met if mention.count == 1}
            rng = Random(tool)
            tried = Probed()
            for parameter in parameters if feeders else ():
                slot = parameter.name
                returned = returned_values(
                    document,
                    parameter,
                    listed[slot],
                    wide[slot],
                    [scene.calls[number] for number in feeders],
                )
                returned = [value for value in returned if not is_written_out(value)]
                # what is the only one of its kind first: words point at that
                returned.sort(key=lambda value: not alone.issuperset(map(key_of, values_in(value))))
                pointed = (one for one in returned[:SEEN] if is_pointed_at(slot, one, met, keys))
                values = list(islice(pointed, POINTED))
                if values and not tried.working:
                    now = {slot: values}
                    found = self._tried(
                        tool, scene, listed | now, wide | now, rng, 1 if fed_only else None
                    )
                    tried = replace(found, fed=slot) if found.working else tried
            if not tried.working and not fed_only:
                tried = self._tried(tool, scene, listed, wide, rng)
            existing = list[str]()
            for call, _ in tried.working[:1]:
                given = {name: [value] for name, value in call.arguments.items()}
                for parameter in parameters:
                    slot = parameter.name
                    # a text that is left out may be one that has to exist, too
                    value = call.arguments.get(
                        slot, "" if parameter.schema.get("type") == "string" else None
                    )
                    unmet = given | {slot: [_unmet(value)]}
                    if waits or (
                        unmet[slot] != [value]
                        and not options(limits(parameter))
                        and not self._tried(tool, scene, unmet, unmet, rng, 1).working
                    ):
                        existing.append(slot)
            self.probes[key] = replace(tried, existing=existing)
        return self.probes[key]

    def _shown(self) -> State:
        """What declared probes, and reads that need nothing, show of the state before any call, and
        its paths: one that is made of calls says little itself."""
        if self.shown is None:
            world = self.environment.reset(self.state)
            self.shown = world.shown() if isinstance(world, ReplayedWorld) else {}
        return self.shown

    def chooser(self, rng: Random) -> Chooser:
        """Takes at each place the arguments of one call that works there, and any values where none
        does."""
        chance = random_chooser(rng)
        taken = dict[Position, JsonMapping | None]()

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
        rng: Random,
        enough: int | None = None,
    ) -> Probed:
        """Of the values listed, and where none of these works, of all that fit; until `enough` of
        them work."""
        working = list[tuple[Call, Result]]()
        refusal = ""
        seen = set[bytes]()
        reads = self.environment.features.reads
        before = [call for call, _ in scene.calls if call.name not in reads]
        lived = canonical([call.as_json() for call in before])
        waits = self.environment.features.waits
        probes = SLOW_PROBES if waits else PROBES
        enough = enough or (SLOW_FOUND if waits else FOUND)
        # what another tool refused may have changed it: rather a new one
        self.spare = self.spare if waits else None
        for offered, most in zip((listed, wide), probes, strict=True):
            most = min(most, 4 * prod(map(len, offered.values())))
            for number in range(0 if working else most):
                # where few can be tried, those that are listed first
                wide_enough = number // 2 + 1 if waits else None
                arguments = {  # half of the optional ones are left out
                    name: rng.choice(
                        [value for value in values if value is not LEFT_OUT][:wide_enough]
                    )
                    for name, values in offered.items()
                    if LEFT_OUT not in values or rng.random() < 0.5
                }
                call = Call(tool, arguments)
                if (written := canonical(call.as_json())) in seen:
                    continue
                seen.add(written)
                if self.spare is None or self.spare[0] != lived:
                    self.spare = lived, self.environment.reset(self.state)
                    for earlier in before:
                        self.spare[1].call(earlier)
                self.calls += 1
                result = self.spare[1].call(call)
                if result.error == "infrastructure":
                    raise InfrastructureError(f"while trying {call}: {result.text}")
                value = value_of(result)
                # what shows nothing was about nothing
                empty = value and all(leaf in (None, "") for leaf in values_in(value))
                if result.error is not None or any(signs(result)) or empty:
                    said = Text.shown(result.text)
                    if not any(map(said.contains_any_form, values_in(arguments))):
                        refusal = result.text
                    continue
                working.append((call, result))
                if tool not in reads:
                    self.spare = None  # it has changed, perhaps
                if len(working) == enough:
                    break
        return Probed(working, refusal=refusal)


def _unmet(value: Any) -> Any:
    """What nothing is called, in the place of a value; a truth value as it is."""
    if isinstance(value, list):
        return [*map(_unmet, value)]
    return value + 17 if type(value) is int else "zqxv" if isinstance(value, str) else value
