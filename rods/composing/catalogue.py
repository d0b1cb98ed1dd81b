"""What composing knows of an environment: recipes, domains of values, worlds and their repair, and
a phrase book.

An environment becomes composable by giving one `Catalogue` through `environment.catalogue()`; its
tables are usually read from TOML (`rods.composing.recipes`, docs/composing.md). Nothing else in
`rods/composing` knows any environment.

A **recipe** is a HIGH-LEVEL function: BOTTOM-LEVEL calls (`steps`) with a source for every
argument. A **domain** lists the values that are sensible at this moment (`Scene`); it need not
check every precondition, since a failing call is repaired or replanned. A **thing** is a value that
a recipe puts into the conversation (`gives`) and later ones take up. A **fact** is what a recipe
makes true without saying it (`makes`: somebody is logged in); others need it (`when`) or need it
not to be so (`unless`)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from random import Random
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, Texts, content_id, frozen
from rods.composing.records import ComposeError, Draft
from rods.environments.base import Environment, Result, Results
from rods.tasks import Task

ABSENT: Any = object()  # what a result has where it has nothing
LEFT_OUT = object()  # chosen for an optional argument: the call goes without it
Names = frozenset[str]
NO_NAMES: Names = frozenset()


@frozen
class Worded:
    """A value of a domain that users say in other words than its own (`["rear_left"]`: "the rear
    left door")."""

    value: Any
    text: str


@frozen
class FromUser:
    """A value of `domain` that the user says, `slot` in the recipe's phrases. Steps of one slot
    share its value."""

    slot: str
    domain: str


@frozen
class FromResult:
    """A value from the result of step `step` of the same recipe, at `path` (keys and list
    indexes)."""

    step: int
    path: tuple[str | int, ...]

    def of(self, value: Any) -> Any:
        """What stands at `path` in a result's `value`; ABSENT when nothing does."""
        try:
            for key in self.path:
                value = value[key]
        except (KeyError, IndexError, TypeError):
            return ABSENT
        return value


@frozen
class FromEarlierRecipe:
    """A thing of `kind` that an earlier recipe gave; in phrases its slot is named like its kind."""

    kind: str


@frozen
class Constant:
    """A constant that the recipe's phrases imply without saying it (a flag, a unit)."""

    value: Any


Source = FromUser | FromResult | FromEarlierRecipe | Constant


@dataclass(frozen=True)
class RecipeStep:
    """One call of a recipe. Arguments left out take the tool's default."""

    tool: str
    arguments: Mapping[str, Source] = field(default_factory=dict)

    @cached_property
    def fed_by(self) -> set[int]:
        """The steps of the same recipe whose results it takes."""
        return {source.step for source in self.arguments.values() if isinstance(source, FromResult)}

    @cached_property
    def takes_up(self) -> set[str]:
        """The kinds of things that it takes."""
        return {
            source.kind
            for source in self.arguments.values()
            if isinstance(source, FromEarlierRecipe)
        }


@frozen
class ProducedEntity:
    """A thing that a recipe leaves behind: its value, and the slot whose words name it; or the
    words themselves (at least two, without slots), or "" when the words of its kind hold no
    `{noun}`."""

    value: FromUser | FromResult | FromEarlierRecipe
    noun: str


@dataclass(frozen=True, eq=False)
class Recipe:
    """A HIGH-LEVEL function. `phrases` are imperative clauses without a full stop, with `{slot}`
    fields; each must name every slot (of users and of things) exactly once. `ends` are kinds of
    things that exist no longer afterwards, and facts that are no longer so. `short` recipes do not
    work in the padded worlds of long contexts; nobody asks for `odd` ones unless a shape needs
    them, so that models are rather offered others."""

    name: str
    steps: tuple[RecipeStep, ...]
    phrases: Texts
    gives: Mapping[str, ProducedEntity] = field(default_factory=dict)
    ends: Texts = ()
    when: Texts = ()
    unless: Texts = ()
    makes: Texts = ()
    short: bool = False
    odd: bool = False
    purpose: Texts = ()  # what a user wants by it, without values ("lend a book")
    leads: Texts = ()  # sentences that ask for nothing, said before it ("A reader is here.")

    @cached_property
    def tools(self) -> Texts:
        return tuple(step.tool for step in self.steps)

    @cached_property
    def needs(self) -> Names:
        """The kinds of things that must have been given before."""
        return frozenset(kind for step in self.steps for kind in step.takes_up)

    @cached_property
    def wants(self) -> Names:
        """The kinds of things and the facts without which it cannot come."""
        return self.needs.union(self.when)

    def fits(self, at_hand: Set[str]) -> bool:
        """Whether it can come now, when `at_hand` are the kinds of things and the facts so far."""
        return self.wants <= at_hand and at_hand.isdisjoint(self.unless)

    def depths_over(self, thing_depths: Mapping[str, int]) -> list[int]:
        """The depth that each step reaches: 1 + the deepest call whose result feeds it, that of a
        thing as in `thing_depths`."""
        reached: list[int] = []
        for step in self.steps:
            fed = [
                *(thing_depths.get(kind, 0) for kind in step.takes_up),
                *(reached[place] for place in step.fed_by),
            ]
            reached.append(1 + max(fed, default=0))
        return reached

    @cached_property
    def depths(self) -> list[int]:
        """The depth that each step reaches by itself."""
        return self.depths_over({})

    @cached_property
    def reach(self) -> int:
        """The deepest that it reaches by itself."""
        return max(self.depths, default=0)

    @cached_property
    def inside(self) -> int:
        """How often a step feeds another."""
        return sum(len(step.fed_by) for step in self.steps)

    @cached_property
    def gives_results(self) -> bool:
        """Whether a thing that it gives comes from a result."""
        return any(isinstance(gift.value, FromResult) for gift in self.gives.values())

    @cached_property
    def user_slots(self) -> Mapping[str, str]:
        """The domain of each slot that the user says."""
        sources = [source for step in self.steps for source in step.arguments.values()]
        return {source.slot: source.domain for source in sources if isinstance(source, FromUser)}

    @cached_property
    def words(self) -> int:
        """The words of the shortest phrase."""
        return min(len(phrase.split()) for phrase in self.phrases)


@frozen
class Slot:
    """What a phrase may say for one of its fields: a said value of `domain`, or a thing of kind
    `domain` (`thing`).

    `text` are the words, for a thing those of its noun. `repeats` marks what an earlier turn has
    already mentioned and nothing of its kind since, so that a back reference is clear; not where it
    might mean `others`, or the turn before did not have it. `fills` are the (step, parameter) it
    goes to; `value` is what was said (None for a thing)."""

    domain: str
    text: str
    thing: bool = False
    repeats: bool = False
    fills: tuple[tuple[int, str], ...] = ()
    value: Any = None
    others: bool = False


@frozen
class Story:
    """A narrative. The sentences have the fields of the plan's narrative (`{topic}`); one without a
    full stop runs on into the request."""

    name: str  #: by which the plan's narrative names it
    opening: Texts  #: lead into the first turn
    later: Texts  #: lead into the following turns
    closing: Texts  #: lead into the last turn
    groups: Names = NO_NAMES  #: the API classes that it suits; without any it suits all


@frozen
class Words:
    """How a kind of thing, or a repeated value, is referred to."""

    explicit: Texts  #: words with its noun, `{noun}`
    back: Texts  #: words that refer back, such as "it"


@dataclass(frozen=True)
class PhraseBook:
    """The words of an environment's users. All templates are written for this project. A text never
    says a tool's name that `Catalogue.ordinary` does not list, nor a parameter's name that no user
    would type (`order_id`, `ignitionMode`; gate `leaks`)."""

    #: by the number of requests: whole sentences with `{0}`, `{1}`, …
    frames: Mapping[int, Texts]
    links: Texts  #: what opens a later turn without a story
    stories: tuple[Story, ...]  #: at least one
    things: Mapping[str, Words]  #: by kind of thing: how it is referred to
    #: by family of domains: blurred forms of a value; with `supply` or not at all
    vague: Mapping[str, Texts]
    #: by family: sentences with `{value}` that supply the value afterwards
    supply: Mapping[str, Texts]
    #: by family: words for a value said earlier
    again: Mapping[str, Texts] = field(default_factory=dict)
    #: whole sentences with `{intent}`, what the user wants to get done
    openings: Texts = ()
    resumes: Texts = ()  #: sentences that lead into what an opening named last
    longest: int = 40  #: words a turn at most; longer wordings drop their lead


@dataclass(slots=True)
class Scene:
    """What a domain sees."""

    state: JsonMapping  #: the state now
    #: what the recipe has bound so far, by slot (said values) or kind (things)
    chosen: JsonMapping
    narrative: Mapping[str, str]  #: the plan's
    #: the values said in earlier turns, by family of domains
    mentioned: Mapping[str, Sequence[Any]]
    calls: Sequence[tuple[Call, Result]] = ()  #: all calls so far, with their results


Domain = Callable[[Scene], Sequence[Any]]


def _nothing(*arguments: Any) -> tuple[()]:
    return ()


# compared and hashed as an object: what is derived from one is cached by it
@dataclass(frozen=True, eq=False)
class Catalogue:
    """Everything that composing needs of one environment. All chance comes from the `rng` that a
    function is given."""

    environment: str  #: the name by which tasks refer to it
    recipes: Mapping[str, Recipe]  #: by name: sequences of calls with a source for every argument
    #: by name: a function of a Scene that lists what may be said at this moment
    domains: Mapping[str, Domain]
    book: PhraseBook  #: the words of its users
    #: `(recipes, avoid, narrative, rng)`: an initial state in which these recipes have a fair
    #: chance, with other names, numbers and contents than `avoid`, the seed's state or None
    make_state: Callable[
        [Sequence[Recipe], JsonMapping | None, Mapping[str, str], Random], JsonObject
    ]
    #: `(state, error, rng)`: the part of a state that is merged into `state` so that what failed
    #: may succeed, or None. Of the ComposeError: `type`, `detail`, `function`, `turn`, the `call`
    #: that failed, the `domain` that had nothing to choose
    patch: Callable[[JsonMapping, ComposeError, Random], JsonObject | None]
    #: `(draft, spoken, rng)`: of a Draft (`state`, `plan`, `turns` of executed calls) the state
    #: with many more entries, none of which `spoken`, lower-case words of the task, could mean
    pad: Callable[[Draft, Names, Random], JsonObject]
    #: `(rng)`: fields of a fresh narrative besides its story's name, such as `{"topic": "flu
    #: season"}`
    topics: Callable[[Random], dict[str, str]]
    #: domains in which the story's topic is the first choice
    thematic: Names = NO_NAMES
    #: domain → the family of those whose values are spoken of alike (source and target accounts:
    #: "account"); a domain left out is a family of its own
    families: Mapping[str, str] = field(default_factory=dict)
    #: tool → one that is easily taken for it
    siblings: Mapping[str, str] = field(default_factory=dict)
    #: tool → two arguments that are easily swapped
    swaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    lookups: Names = NO_NAMES  #: tools that only read
    #: tool → the arguments by which what it makes is one thing: nobody wants it twice
    once: Mapping[str, Texts] = field(default_factory=dict)
    #: tools whose answer may be known or told without them: none is held out
    known: Names = NO_NAMES
    #: tool → words of which the user says one, since another tool answers the same request
    named: Mapping[str, Texts] = field(default_factory=dict)
    #: tools shown with a task at most: all of the classes in use, thinned out by chance
    shown: int = 40
    #: tool and parameter names that are ordinary words, so that users may say them
    ordinary: Names = NO_NAMES
    #: kinds of things that requests may leave unsaid once they are on the table (a session's token)
    silent: Names = NO_NAMES
    #: `(state)`: the API classes whose tools are shown, in order, whether a call uses them or not
    present: Callable[[JsonMapping], Collection[str]] = _nothing
    #: tools that a variant may share with its seed (going to a folder, logging in)
    common: Names = NO_NAMES
    #: how much likelier a recipe is that the plan already has; 1: as likely as any
    repeated: float = 1.0
    #: `(task, results)`: (turn, call, why) of each call that runs here and that the environment's
    #: official checker would hold against its own ground truth
    misjudged: Callable[[Task, Results], Iterable[tuple[int, int, str]]] = _nothing

    def recipe(self, name: str, turn: int | None = None) -> Recipe:
        """Raises ComposeError("func_sample_failed") where no recipe has this name."""
        if name not in self.recipes:
            raise ComposeError(
                "func_sample_failed", f"no recipe {name!r}", function=name, turn=turn
            )
        return self.recipes[name]

    def family(self, domain: str) -> str:
        return self.families.get(domain, domain)

    @cached_property
    def content_id(self) -> str:
        """A hash of the recipes, in their order, and of the phrase book."""
        return content_id([_plain(list(self.recipes.values())), _plain(self.book)])


def _plain(value: Any) -> Any:
    """Records and tables as JSON, in which order counts."""
    if is_dataclass(value):
        return [_plain(getattr(value, attribute.name)) for attribute in fields(value)]
    if isinstance(value, Mapping):
        return [[name, _plain(item)] for name, item in value.items()]
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def known_catalogue(environment: Environment) -> Catalogue | None:
    """What the environment's optional method `catalogue()` returns; None without one."""
    supply = getattr(environment, "catalogue", None)
    catalogue = supply() if callable(supply) else None
    return catalogue if isinstance(catalogue, Catalogue) else None


def catalogue_for(environment: Environment) -> Catalogue:
    """The environment's catalogue. Raises ComposeError("no_prompts") without one."""
    if (catalogue := known_catalogue(environment)) is None:
        raise ComposeError(
            "no_prompts", f"environment {environment.name!r} has no catalogue to compose from"
        )
    return catalogue
