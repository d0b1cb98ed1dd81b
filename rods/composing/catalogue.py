"""What composing knows of an environment: recipes, domains of values, worlds and their repair, and a phrase book.

An environment becomes composable by giving one `Catalogue` through `environment.catalogue()`; its tables are usually
read from TOML (`rods.composing.recipes`). Nothing else in `rods/composing` knows any environment.

- A **recipe** is a HIGH-LEVEL function: a named sequence of BOTTOM-LEVEL calls (`steps`) in which every argument has a
  source: `Said` by the user (a value drawn from a domain), `Got` from the result of an earlier step of the recipe,
  `Known` from an earlier recipe (a *thing*, such as the event just created), or `Implied` by the recipe's own wording.
- A **domain** is a function that lists the values which are sensible at this moment (`Scene`: the state now, what the
  recipe has chosen so far, the story). It need not check every precondition: a failing call is repaired or replanned.
- A **thing** is a value of some kind that a recipe puts into the conversation (`gives`) and later recipes may take up
  (`Known`), be it by its noun ("the launch event") or, in a holistic rewrite, by a back reference ("it").
- A **fact** is what a recipe makes true without saying it (`makes`: somebody is logged in, one stands in a folder);
  others need it (`when`) or need it not to be so (`unless`).
- `make_state`, `patch` and `pad` make an initial state, mend one in which a call failed, and lengthen one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any

from rods.calls import Call
from rods.canonical import content_id
from rods.composing.records import ComposeError, Draft
from rods.environments.base import Environment, Result, Results
from rods.tasks import Task


@dataclass(frozen=True, slots=True)
class Worded:
    """A value of a domain that users say in other words than its own (`["rear_left"]`: "the rear left door")."""

    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """A value of `domain` that the user says, under the name `slot` in the recipe's phrases. A slot that two steps
    share has one value."""

    slot: str
    domain: str


@dataclass(frozen=True, slots=True)
class Got:
    """A value from the result of step `step` of the same recipe, at `path` (keys and list indexes)."""

    step: int
    path: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A thing of `kind` that an earlier recipe gave; in phrases its slot is named like its kind."""

    kind: str


@dataclass(frozen=True, slots=True)
class Implied:
    """A constant that the recipe's phrases imply without saying it (a flag, a unit)."""

    value: Any


Source = Said | Got | Known | Implied


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """One call of a recipe. Arguments left out take the tool's default."""

    tool: str
    arguments: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gift:
    """A thing that a recipe leaves behind: its value, and the slot whose words name it; or the words themselves (at
    least two, without slots), or "" when the words of its kind hold no `{noun}`."""

    value: Said | Got | Known
    noun: str


@dataclass(frozen=True, eq=False)
class Recipe:
    """A HIGH-LEVEL function. `phrases` are imperative clauses without a full stop, with `{slot}` fields; each must name
    every slot (Said slots and Known kinds) exactly once. `ends` are kinds of things that exist no longer afterwards,
    and facts that are no longer so. `short` recipes do not work in the padded worlds of long contexts."""

    name: str
    steps: tuple[RecipeStep, ...]
    phrases: tuple[str, ...]
    gives: Mapping[str, Gift] = field(default_factory=dict)
    ends: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    short: bool = False

    @cached_property
    def tools(self) -> tuple[str, ...]:
        return tuple(step.tool for step in self.steps)

    @cached_property
    def needs(self) -> frozenset[str]:
        """The kinds of things that must have been given before."""
        return frozenset(source.kind for source in self._sources() if isinstance(source, Known))

    @cached_property
    def wants(self) -> frozenset[str]:
        """The kinds of things and the facts without which it cannot come."""
        return self.needs.union(self.when)

    def fits(self, given: Set[str]) -> bool:
        """Whether it can come now, when `given` are the kinds of things and the facts so far."""
        return self.wants <= given and given.isdisjoint(self.unless)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The depth that each step reaches by itself: 1 + the deepest step whose result feeds it."""
        reached: list[int] = []
        for step in self.steps:
            fed = [reached[source.step] for source in step.arguments.values() if isinstance(source, Got)]
            reached.append(1 + max(fed, default=0))
        return tuple(reached)

    @cached_property
    def reach(self) -> int:
        """The deepest that it reaches by itself."""
        return max(self.depths, default=0)

    @cached_property
    def inside(self) -> int:
        """How often a step feeds another."""
        return sum(len({source.step for source in _got(step.arguments.values())}) for step in self.steps)

    @cached_property
    def passes_on(self) -> bool:
        """Whether it leaves a result for later recipes."""
        return bool(_got(gift.value for gift in self.gives.values()))

    @cached_property
    def says(self) -> Mapping[str, str]:
        """The domain of each slot that the user says."""
        return {source.slot: source.domain for source in self._sources() if isinstance(source, Said)}

    @cached_property
    def words(self) -> int:
        """The words of the shortest phrase."""
        return min(len(phrase.split()) for phrase in self.phrases)

    def _sources(self) -> list[Source]:
        return [source for step in self.steps for source in step.arguments.values()]


def _got(sources: Iterable[Source]) -> list[Got]:
    return [source for source in sources if isinstance(source, Got)]


@dataclass(frozen=True, slots=True)
class Slot:
    """What a phrase may say for one of its fields: a said value of `domain`, or a thing of kind `domain` (`thing`).

    `text` are the words, for a thing those of its noun. `repeats` marks what an earlier turn has already mentioned and
    nothing of its kind since, so that a back reference is clear. `fills` are the (step, parameter) it goes to; `value`
    is what was said (None for a thing).
    """

    domain: str
    text: str
    thing: bool = False
    repeats: bool = False
    fills: tuple[tuple[int, str], ...] = ()
    value: Any = None


@dataclass(frozen=True, slots=True)
class Story:
    """A narrative: `opening` leads into the first turn, `later` into the following ones, `closing` into the last.
    Fields are those of the plan's narrative (`{topic}`). A lead without a full stop runs on into the request.
    `groups` are the API classes that it suits; without any it suits all."""

    name: str
    opening: tuple[str, ...]
    later: tuple[str, ...]
    closing: tuple[str, ...]
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Words:
    """How a kind of thing, or a repeated value, is referred to: by its noun (`{noun}`), or back."""

    explicit: tuple[str, ...]
    back: tuple[str, ...]


@dataclass(frozen=True)
class PhraseBook:
    """The words of an environment's users. All templates are written for this project.

    `frames[n]` hold n clauses ({0}, {1}, …) and make whole sentences. `links` open a later turn without a story.
    By family of domains (`Catalogue.families`): `vague` are blurred forms of a value, `supply` the sentences that
    supply it afterwards ({value}), both or neither; `again` refers back to a value that an earlier turn said.
    """

    frames: Mapping[int, tuple[str, ...]]
    links: tuple[str, ...]
    stories: tuple[Story, ...]
    things: Mapping[str, Words]
    vague: Mapping[str, tuple[str, ...]]
    supply: Mapping[str, tuple[str, ...]]
    again: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    longest: int = 40  # words a turn; longer wordings drop their lead


@dataclass(slots=True)
class Scene:
    """What a domain sees. `state` is the state now; `chosen` what the recipe has bound so far, by slot (said values)
    or kind (things); `narrative` the plan's; `mentioned` the values said in earlier turns, by family of domains;
    `calls` all calls so far with their results."""

    state: Mapping[str, Any]
    chosen: Mapping[str, Any]
    narrative: Mapping[str, str]
    mentioned: Mapping[str, Sequence[Any]]
    calls: Sequence[tuple[Call, Result]] = ()


LEFT_OUT = object()  # chosen for an optional argument: the call goes without it


Domain = Callable[[Scene], Sequence[Any]]


def _none(state: Mapping[str, Any]) -> Collection[str]:
    return ()


def _all_judged(task: Task, results: Results) -> Iterable[tuple[int, int, str]]:
    return ()


@dataclass(frozen=True, eq=False)  # compared and hashed as an object: what is derived from one is cached by it
class Catalogue:
    """Everything that composing needs of one environment.

    - `environment`: the name by which tasks refer to it (`rods.environments.loading`).
    - `make_state(recipes, avoid, narrative, rng)`: an initial state in which these recipes have a fair chance, with
      other names, numbers and contents than `avoid` (the seed's state, or None).
    - `patch(state, error, rng)`: a partial state to be merged into `state` so that what failed may succeed, or None.
    - `pad(draft, spoken, rng)`: the draft's initial state with many more entries, none of which `spoken` (lower-case
      words of the task) could mean.
    - `topics(rng)`: fields of a fresh narrative besides its story's name.
    - `thematic`: domains in which the story's topic is the first choice.
    - `families`: domains whose values are spoken of alike (source and target accounts: "account"); a domain left out
      is a family of its own.
    - `siblings`: a tool that is easily taken for the key; `swaps`: two arguments of a tool that are easily swapped.
    - `lookups`: tools that only read.
    - `shown`: at most so many tools are shown with a task: all of the classes in use, thinned out by chance.
    - `ordinary`: tool and parameter names that are also ordinary words, so that users may say them.
    - `silent`: kinds of things that requests may leave unsaid once they are on the table (a session's token).
    - `present(state)`: the API classes whose tools are shown, in order, whether a call uses them or not.
    - `common`: tools that a variant may share with its seed as it likes (going to a folder, logging in).
    - `repeated`: how much likelier a recipe is that the plan already has (1: as likely as any).
    - `misjudged(task, results)`: (turn, call, why) of each call that runs here and that the environment's official
      checker would hold against its own ground truth.
    """

    environment: str
    recipes: Mapping[str, Recipe]
    domains: Mapping[str, Domain]
    book: PhraseBook
    make_state: Callable[[Sequence[Recipe], Mapping[str, Any] | None, Mapping[str, str], random.Random], dict[str, Any]]
    patch: Callable[[Mapping[str, Any], ComposeError, random.Random], dict[str, Any] | None]
    pad: Callable[[Draft, frozenset[str], random.Random], dict[str, Any]]
    topics: Callable[[random.Random], dict[str, str]]
    thematic: frozenset[str] = frozenset()
    families: Mapping[str, str] = field(default_factory=dict)
    siblings: Mapping[str, str] = field(default_factory=dict)
    swaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    lookups: frozenset[str] = frozenset()
    shown: int = 40
    ordinary: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    present: Callable[[Mapping[str, Any]], Collection[str]] = _none
    common: frozenset[str] = frozenset()
    repeated: float = 1.0
    misjudged: Callable[[Task, Results], Iterable[tuple[int, int, str]]] = _all_judged

    def family(self, domain: str) -> str:
        return self.families.get(domain, domain)

    @cached_property
    def content_id(self) -> str:
        """A hash of the recipes, in their order, and of the phrase book."""
        return content_id([_plain(list(self.recipes.values())), _plain(self.book)])


def _plain(value: Any) -> Any:
    """Records and tables as JSON, in which order counts."""
    if is_dataclass(value):
        return [_plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, Mapping):
        return [[name, _plain(item)] for name, item in value.items()]
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def catalogue_for(environment: Environment) -> Catalogue:
    """What the environment's optional method `catalogue()` returns. Raises ComposeError("no_prompts") without one."""
    supply = getattr(environment, "catalogue", None)
    catalogue = supply() if callable(supply) else None
    if not isinstance(catalogue, Catalogue):
        raise ComposeError("no_prompts", f"environment {environment.name!r} has no catalogue to compose from")
    return catalogue
