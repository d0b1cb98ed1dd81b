"""Stage I: functions for the places of a pattern, and the story (004 §3.3, Appendices C.1 and F).

The *pattern* says for every call of the root's shape which functions may stand there. Where the
environment has recipes (HIGH-LEVEL functions), a procedural sketch of the right shape is widened:
each of its functions may be exchanged for any other with as many calls of the same API classes, the
same depth and flows, the same needs, and results on which what follows can rely. So whatever a
model picks is likely to fit together, and keeps what the gates hold it to. After a
`decompose_failed`, and where there are no recipes, the functions are single tools (BOTTOM-LEVEL;
`catalogue_free.linking`), of which a model may write HIGH-LEVEL ones of its own. Its choice is
checked against the pattern before anything runs."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import field, replace
from functools import partial
from random import Random
from typing import Any

from rods.analysis.containment import is_small, key_of, values_in
from rods.analysis.profile import Position
from rods.asking import AnswerForm, Unreadable, obj, one_of
from rods.canonical import JsonObject, frozen
from rods.composing.bind import fresh_state, random_chooser, realise
from rods.composing.catalogue import Catalogue, Recipe
from rods.composing.plan_search import Table
from rods.composing.records import ComposeError, Draft, Plan, PlannedTurn
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.catalogue_free import is_single_tool, linking
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.daemon.authors.llm import showing, wording
from rods.daemon.authors.llm.forming import check_form
from rods.daemon.authors.llm.initial_states import mended
from rods.daemon.authors.llm.questions import NARRATIVE, Context
from rods.daemon.authors.procedural import sketch
from rods.environments.base import Environment, Instance, value_of
from rods.prompts import load
from rods.tasks import TaskType
from rods.transcripts import one_line

CHOICES = 6  # functions offered for one place
SKETCHES = 16  # that are compared: a model chooses among what comes of it
DRAWN = 8  # times at most, until the form of the type can be made of what comes of it
COMPARED = 3  # of which something comes, at most
TRIALS = 3  # times that chance binds a plan to see whether it can
DRAWS = 16  # plans of single tools that chance draws at most, to see which can be made
KNOWN = 4  # such plans that are enough
TRIED = 3  # functions that are drawn at most for a place of one
PROBED = 5_000  # calls after which no more are drawn
FAILURE = 1_000  # characters of a failure that is told
PAIRS = 12  # that are shown of functions which feed each other
# of a function that the model writes
TOOLS = {"type": "array", "items": {"type": "string"}, "minItems": 2}
COMPOSED = {
    "type": "array",
    "items": obj({"name": {"type": "string", "maxLength": 60}, "calls": TOOLS}),
}


Options = tuple[str, ...]  # functions that fit a place, all with as many calls


@frozen
class Pattern:
    """The functions to choose in each turn, of the options of each place; none where no call is
    right. `depth` is None where only the calls can show it; then `pairs` are functions, of places
    that should, found to feed each other, and `known` is a plan that chance could make."""

    turns: tuple[tuple[Options, ...], ...]
    depth: int | None = None
    pairs: Mapping[tuple[Position, Position], linking.Pairs] = field(default_factory=dict)
    known: Sequence[Sequence[str]] = ()

    @property
    def leaves_choice(self) -> bool:
        return any(len(options) > 1 for places in self.turns for options in places)

    @property
    def offered(self) -> list[list[str]]:
        """The functions that are offered, turn by turn."""
        return [[name for options in turn for name in options] for turn in self.turns]


def _tools(catalogue: Catalogue, turns: Sequence[Sequence[str]]) -> list[str]:
    return [tool for names in turns for name in names for tool in catalogue.recipes[name].tools]


def _planned(catalogue: Catalogue, turns: Iterable[Sequence[str]]) -> Plan:
    return Plan(
        tuple(PlannedTurn(tuple(names), tuple(_tools(catalogue, [names]))) for names in turns)
    )


async def plan(context: Context, assignment: StagedAssignment) -> Plan:
    """A plan of the pattern's functions. Raises ComposeError: `no_prompts` without a query
    template, `no_pattern`, `plan_unreadable`, `func_sample_failed` for functions that are not to be
    had, `decompose_failed` for one whose calls do not fit its place, `duplicate_func` for one that
    stands twice in a turn, `conversation_construct_failed` for a turn that needs a later one, or
    for single tools that cannot feed each other as in the root."""
    for group in assignment.profile.classes:
        wording.query_template(
            context.environment, group, fallback=context.settings.fallback_prompt
        )
    catalogue = context.catalogue
    world = mended(context, assignment.seed.state or {})
    prober = Prober(
        context.environment, catalogue, world, linking.feeding(assignment), context.asker.tell
    )
    tried = partial(_doomed, context, assignment, prober)

    def satisfiable(assignment: StagedAssignment) -> Pattern:
        drawn = pattern(prober, assignment, assignment.rng("pattern"), tried)
        return _satisfiable(context, assignment, prober, drawn)

    try:
        wanted = await context.compute(satisfiable, assignment)
    except ComposeError:
        # what only took part in a failure, rather than nothing
        at_fault = assignment.blocked.intersection(error.function for error in assignment.failures)
        if at_fault == assignment.blocked:
            raise
        assignment = replace(assignment, blocked=at_fault)
        wanted = await context.compute(satisfiable, assignment)
    # each once, the newest first
    failed = dict.fromkeys(error.type for error in reversed(assignment.failures))
    composes = (
        context.settings.high_level and wanted.depth is None and "decompose_failed" not in failed
    )
    alone = composes and "query_verify_failed" in failed  # Appendix E: then one function a turn
    # of recipes it is told with the values, by who sees the world
    storied = assignment.narrative and wanted.depth is None
    if not (storied or composes or wanted.leaves_choice):
        return _planned(catalogue, wanted.offered)
    form: JsonObject = {"narrative": NARRATIVE} if storied else {}
    form |= {"functions": COMPOSED} if composes else {}
    for number, places in enumerate(wanted.turns, 1):
        if places:
            single = [one_of(*options) for options in places]
            form[f"turn_{number}"] = {
                "type": "array",
                "minItems": 1 if composes else len(places),
                "maxItems": 1 if alone else len(places),
                **({} if composes else {"prefixItems": single}),
            }

    def read(answer: JsonObject) -> Plan:
        composed = {function["name"]: function["calls"] for function in answer.get("functions", ())}
        if taken := sorted(composed.keys() & catalogue.recipes.keys()):
            raise Unreadable(
                f"a function of your own cannot be called {taken[0]}, as a tool is",
                "decompose_failed",
                taken,
            )
        chosen = []
        try:
            for number, places in enumerate(wanted.turns, 1):
                names = answer[f"turn_{number}"] if places else []
                if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                    raise Unreadable(f"turn_{number} must be a list of names", "plan_unreadable")
                if alone and len(names) > 1:
                    raise Unreadable(
                        f"turn_{number} must be one function, of its {len(places)} calls",
                        functions=names,
                    )
                chosen.append(_decomposed(composed, places, names, f"turn_{number}"))
            _check(catalogue, assignment, wanted, chosen)
        except Unreadable as unfit:  # it could be read
            unfit.error = unfit.error or "func_sample_failed"
            raise
        story = {"story": answer["narrative"].strip()} if storied else {}
        return replace(_planned(catalogue, chosen), narrative=story, composed=composed)

    guidance = load("guidance").sections
    tools = context.environment.tools()
    names = list(dict.fromkeys(name for turn in wanted.offered for name in turn))
    refused = (
        "" if wanted.depth is not None else await context.compute(linking.refused, prober, names)
    )
    fields = {
        "functions": "\n".join(showing.purpose(catalogue, name) for name in names),
        "schemas": showing.schemas(tools[name] for name in sorted(set(_tools(catalogue, [names])))),
        "pattern": _places(wanted, assignment.profile.type) + _links(assignment, wanted),
        "refused": refused,
        "tools": ", ".join(assignment.profile.tools),
        "root": showing.root(assignment.root),
        "failures": "\n".join(map(_failure_line, assignment.failures)),
        "blocked": ", ".join(sorted(assignment.blocked)) or "(none)",
        "guidance": " ".join(guidance[type] for type in failed if type in guidance),
        "composing": "All calls of a turn must be one function."
        if alone
        else "A turn may have several functions.",
    }
    due = {
        "schemas": wanted.depth is None,
        "refused": refused,
        "story": storied,
        "root": storied,
        "avoid": wanted.leaves_choice and not assignment.same,
        "compose": composes,
        "learn": assignment.failures,
    }
    sections = [name for name, holds in due.items() if holds]
    guiding = frozenset(form) - {"narrative", "functions"}
    answers = AnswerForm(form, optional=frozenset({"functions"}), guiding=guiding)

    async def check(plan: Plan) -> None:
        # else no answer is another
        if wanted.leaves_choice and (doom := await context.compute(tried, plan)):
            known = f". These are known to go together: {wanted.known}" if wanted.known else ""
            raise Unreadable(f"{doom.detail}{known}", doom.type)

    return await context.ask(
        assignment, "planner", fields, answers, read, check=check, sections=sections
    )


def _satisfiable(
    context: Context, assignment: StagedAssignment, prober: Prober, drawn: Pattern
) -> Pattern:
    """Of a pattern of single tools, at the places that hang together, only what stands in plans of
    which chance could make something, with one of these. Raises the error of the plan where there
    is no choice, and of the last where nothing comes of any, if half of them fail by what no value
    mends, or a plan has failed already."""
    catalogue = context.catalogue
    if not drawn.leaves_choice:
        if doom := _doomed(context, assignment, prober, _planned(catalogue, drawn.offered)):
            raise ComposeError(doom.type, doom.detail)
        return drawn
    if drawn.depth is not None or context.environment.features.waits:
        return drawn
    rng = assignment.rng("plans")
    known = list[list[list[str]]]()
    dooms = list[ComposeError]()
    drawn_plans = 0
    most = prober.calls + PROBED
    barred = set[tuple[int | None, str]]()
    for _ in range(DRAWS):
        turns = _drawn(prober, drawn, rng, barred)
        works, doom = _trial(context, assignment, prober, _planned(catalogue, turns))
        drawn_plans += 1
        if doom is not None:
            dooms.append(doom)
            barred.update((doom.turn, name) for name in doom.functions)
        if works:
            known.append(turns)
        if len(known) == KNOWN or prober.calls > most:
            break
    if not known:
        # whoever chooses well may do better than chance, once
        if dooms and (assignment.failures or 2 * len(dooms) >= drawn_plans):
            raise ComposeError(dooms[-1].type, dooms[-1].detail)
        return drawn
    hanging = {place for pair in drawn.pairs for place in pair}
    hanging |= {
        (turn, place)
        for turn, places in enumerate(drawn.turns)
        for place in range(len(places))
        if turn and not drawn.turns[turn - 1]  # it is asked for in vain before
    }
    options = tuple(
        tuple(
            tuple(dict.fromkeys(turns[turn][place] for turns in known))
            if (turn, place) in hanging
            else offered
            for place, offered in enumerate(places)
        )
        for turn, places in enumerate(drawn.turns)
    )
    pairs = dict[tuple[Position, Position], linking.Pairs]()
    for (first, second), able in drawn.pairs.items():
        made = [(turns[first[0]][first[1]], turns[second[0]][second[1]]) for turns in known]
        pairs[first, second] = [pair for pair in able if pair in made] or able
    return replace(drawn, turns=options, pairs=pairs, known=known[0])


def _drawn(
    prober: Prober, wanted: Pattern, rng: Random, barred: Set[tuple[int | None, str]]
) -> list[list[str]]:
    """A function for each place, drawn, which runs there as chance binds what stands before it, if
    a few draws find one; where another place feeds it, one that this is known to feed. Rather none
    of those `barred` in a turn."""
    turns: list[list[str]] = []
    chance = rng.random()
    for turn, places in enumerate(wanted.turns):
        turns.append([])
        for place, options in enumerate(places):
            fitting = [
                {taker for giver, taker in pairs if giver == turns[first[0]][first[1]]}
                for (first, second), pairs in wanted.pairs.items()
                if second == (turn, place)
            ]
            names = [name for name in options if all(name in takers for takers in fitting)]
            names = [name for name in names if (turn, name) not in barred] or names or [*options]
            for name in rng.sample(names, min(TRIED, len(names))):
                turns[-1][place:] = [name]
                chooser = prober.chooser(Random(chance))
                try:
                    tried = _planned(prober.catalogue, turns)
                    realise(prober.environment, prober.catalogue, tried, prober.state, chooser)
                    break
                except ComposeError:
                    continue
    return turns


def _doomed(
    context: Context, assignment: StagedAssignment, prober: Prober, plan: Plan
) -> ComposeError | None:
    """Why nothing comes of a plan, whichever values chance binds: it calls exactly the seed's
    tools, its calls do not feed each other as in the root, one can only repeat or undo another, or
    the form of the wanted type cannot be made of it. None where it can, where other calls fail each
    time, which other values or a patch may mend, and where each call waits for another process."""
    return _trial(context, assignment, prober, plan)[1]


def _trial(
    context: Context, assignment: StagedAssignment, prober: Prober, plan: Plan
) -> tuple[bool, ComposeError | None]:
    """Whether chance could make something of a plan, and as `_doomed`."""
    catalogue = context.catalogue
    environment = context.environment
    single = linking.are_single_tools(catalogue, plan)
    own = Counter(call.name for call in assignment.seed.goal_calls)
    if not assignment.same and own == Counter(tool for turn in plan.turns for tool in turn.tools):
        why = "these are exactly the tools that the existing conversation calls: choose others"
        return False, ComposeError("no_pattern", why)
    doom = None
    for number in range(0 if environment.features.waits else TRIALS):
        rng = assignment.rng(f"trial {number}")
        try:
            state = prober.state if single else fresh_state(catalogue, plan, assignment.seed, rng)
            chooser = prober.chooser(rng) if single else random_chooser(rng)
            draft = realise(environment, catalogue, plan, state, chooser)
            draft = linking.with_inferred_flows(environment, catalogue, assignment, draft)
            check_form(context, assignment, draft)
            if not (name := _useless(environment, draft)):
                return True, None
            why = f"{name} is undone by another, or shows what was shown before: choose others"
            doom = ComposeError("no_pattern", why, functions=[name])
        except ComposeError as error:
            if error.type in ("no_pattern", "conversation_construct_failed", "duplicate_func"):
                doom = error.with_traceback(None)
    return False, doom


def _useless(environment: Environment, draft: Draft) -> str:
    """A function of no use: it shows what was shown before, or changes what nothing later tells and
    nothing is left of, so that all goes on and ends as without it. Empty where there is none, and
    where worlds cannot be copied."""
    if not environment.features.fork:
        return ""
    world = environment.reset(draft.state)
    shown = set[str]()
    told = list[set[Any]]()  # since the last change
    untold: list[tuple[str, Instance]] = []  # each with the world in which it was not called
    for calls in draft.turns:
        for place, bound in enumerate(calls):
            before = world.fork()
            result = world.call(bound.call)
            text = result.text
            untold = [change for change in untold if change[1].call(bound.call).text == text]
            record = f"{bound.call} {text}"
            values = [leaf for leaf in values_in(value_of(result)) if not is_small(leaf)]
            own = {key_of(leaf) for leaf in values}
            if not world.same_state(before):
                untold.append((bound.recipe, before))
                told.clear()
            elif bound.recipe not in [one.recipe for one in calls[place + 1 :]] and (
                record in shown or (own and any(own <= held for held in told))
            ):
                return bound.recipe
            told.append(own)
            shown.add(record)
    return next((name for name, without in untold if world.same_state(without)), "")


def pattern(
    prober: Prober,
    assignment: StagedAssignment,
    rng: Random,
    tried: Callable[[Plan], ComposeError | None] = lambda plan: None,
) -> Pattern:
    """The pattern for one plan; of recipes, sketches and options are `tried`, which says why
    nothing comes of a plan. Raises ComposeError("no_pattern") when no
    function is left for some place."""
    catalogue = prober.catalogue
    own = {name: recipe for name, recipe in catalogue.recipes.items() if not is_single_tool(recipe)}
    if own and not any(error.type == "decompose_failed" for error in assignment.failures):
        return _from_recipes(prober, own, assignment, rng, tried)
    turns, pairs = linking.tool_options(prober, assignment, rng)
    return Pattern(
        tuple(tuple(tuple(options) for options in places) for places in turns), pairs=pairs
    )


def _from_recipes(
    prober: Prober,
    own: Mapping[str, Recipe],
    assignment: StagedAssignment,
    rng: Random,
    tried: Callable[[Plan], ComposeError | None],
) -> Pattern:
    catalogue = prober.catalogue
    environment = prober.environment
    recipes_only = replace(catalogue, recipes=own)
    silent = replace(assignment, narrative=False)
    # what nobody asks for, or what takes back what an earlier one made, is not forced on anybody
    odd = [
        name for name, recipe in own.items() if recipe.odd or recipe.needs.intersection(recipe.ends)
    ]
    barred = assignment.blocked.union(odd)
    sketches = list[Plan]()
    for _ in range(DRAWN):
        try:
            others = replace(silent, blocked=barred)
            sketched = sketch(recipes_only, environment, others, rng, SKETCHES)
        except ComposeError:  # a rare shape: look for long
            sketched = sketch(recipes_only, environment, silent, rng)
            barred = assignment.blocked
        if doom := tried(sketched):
            barred = barred.union(doom.functions)
            continue
        sketches.append(sketched)
        if len(sketches) == COMPARED:
            break
        counts = Counter(name for turn in sketched.turns for name in turn.recipes)
        barred = barred.union(name for name, count in counts.items() if count > 1)
    if not sketches:
        assert doom is not None
        raise ComposeError("no_pattern", doom.detail)
    sketched = max(sketches, key=partial(_goes_on, recipes_only))
    tools = environment.tools()
    avoided = {call.name for call in assignment.seed.goal_calls} - catalogue.common
    chosen = [[own[name] for name in turn.recipes] for turn in sketched.turns]
    later = [recipe for turn in chosen for recipe in turn]
    elsewhere = [*later]
    made = set[str]()  # facts that any choice before may make
    table = Table()
    turns = list[tuple[Options, ...]]()
    for turn, recipes in enumerate(chosen):
        places = list[Options]()
        for recipe in recipes:
            later.pop(0)
            needed = frozenset[str]().union(
                *(other.needs.union(other.when, other.unless) for other in later)
            )
            groups = Counter(tools[name].group for name in recipe.tools)
            options = [
                other.name
                for other in own.values()
                if other not in elsewhere
                and not other.odd
                and other.needs == recipe.needs
                and set(other.when) <= set(recipe.when)
                and other.fits(table.things.keys())
                and made.isdisjoint(other.unless)
                and not any(set(other.makes).intersection(one.unless) for one in later)
                and _left(recipe, table, turn, needed) == _left(other, table, turn, needed)
                and not assignment.blocked.intersection((other.name, *other.tools))
                and not (other.short and assignment.profile.type == "long_context")
                and Counter(tools[name].group for name in other.tools) == groups
                and (
                    other.tools == recipe.tools
                    if assignment.same
                    else not avoided.intersection(other.tools)
                )
            ]
            rng.shuffle(options)
            # an option that comes to nothing is none
            names = [list(planned.recipes) for planned in sketched.turns]
            fitting = list[str]()
            for name in options:
                names[turn][len(places)] = name
                if not tried(_planned(catalogue, names)):
                    fitting.append(name)
            options = fitting[: CHOICES - 1]
            options = [recipe.name, *options]
            made.update(*(own[name].makes for name in options))
            rng.shuffle(options)
            places.append(tuple(options))
            table.add(recipe, turn)
        turns.append(tuple(places))
    return Pattern(tuple(turns), assignment.profile.depth)


def _goes_on(catalogue: Catalogue, plan: Plan) -> int:
    """How much a plan is one errand: what its functions take up of earlier ones, less tools that
    are called again."""
    names = [name for turn in plan.turns for name in turn.recipes]
    tools = _tools(catalogue, [names])
    taken = sum(len(catalogue.recipes[name].needs - catalogue.silent) for name in names)
    return taken + len({*tools}) - len(tools)


def _left(recipe: Recipe, table: Table, turn: int, needed: frozenset[str]) -> tuple[object, ...]:
    """The depth that a recipe reaches on this table, the edges, and depth and turn of the needed
    things it leaves."""
    after = replace(table.copy(), depth=0)
    after.add(recipe, turn)
    left = {
        kind: (depth, origin[0]) for kind, (depth, origin) in after.things.items() if kind in needed
    }
    return after.depth, after.edges, left


def _check(
    catalogue: Catalogue,
    assignment: StagedAssignment,
    wanted: Pattern,
    chosen: Sequence[Sequence[str]],
) -> None:
    """Raises Unreadable where chosen functions do not fit their places and each other."""
    recipes = catalogue.recipes
    table = Table()
    for turn, (places, names) in enumerate(zip(wanted.turns, chosen, strict=True)):
        here = f"turn {turn + 1}"
        if len(names) != len(places):
            raise Unreadable(f"{here} has {len(places)} places, not {len(names)}")
        for options, name in zip(places, names, strict=True):
            recipe = _offered(catalogue, assignment, options, name, here)
            # nothing would differ
            if names.count(name) > 1 and (wanted.depth is not None or not recipe.user_slots):
                raise Unreadable(f"{here} asks for {name} twice", "duplicate_func", [name])
            if missing := recipe.needs.union(recipe.when) - table.things.keys():
                what = f"{here}: {name} needs {', '.join(sorted(missing))}"
                for later in (
                    recipes[name]
                    for names in chosen[turn + 1 :]
                    for name in names
                    if name in recipes
                ):
                    if missing.intersection((*later.gives, *later.makes)):
                        raise Unreadable(
                            f"{what}, which only the later {later.name} gives",
                            "conversation_construct_failed",
                            [name, later.name],
                        )
                raise Unreadable(f"{what}, which nothing before it gives", functions=[name])
            # what is known in silence may be said again
            if over := table.things.keys() & {*recipe.unless} - catalogue.silent:
                raise Unreadable(
                    f"{here}: {name} cannot come once there is {', '.join(sorted(over))}",
                    functions=[name],
                )
            table.add(recipe, turn)
    if wanted.depth is not None and table.depth != wanted.depth:
        raise Unreadable(f"the chain has {table.depth} calls. {linking.chain(wanted.depth)}")


def _decomposed(
    composed: Mapping[str, list[str]], places: Sequence[Options], names: list[str], turn: str
) -> list[str]:
    """A turn's functions with each HIGH-LEVEL one in BOTTOM-LEVEL calls (004 Appendix D). Raises
    Unreadable where these do not fit the places at which it stands."""
    calls: list[str] = []
    for name in names:
        own = composed.get(name, [name])
        room = places[len(calls) : len(calls) + len(own)]
        if name in composed and (
            len(room) < len(own) or any(map(lambda call, may: call not in may, own, room))
        ):
            raise Unreadable(
                f"{turn}: {name} comes down to {', '.join(own)}; there is room for "
                f"{showing.compact(room)}",
                "decompose_failed",
                [name],
            )
        calls += own
    return calls


def _offered(
    catalogue: Catalogue, assignment: StagedAssignment, options: Options, name: str, turn: str
) -> Recipe:
    recipe = catalogue.recipes.get(name)
    where = f"{turn}: {name!r}"
    if recipe is None:
        raise Unreadable(f"{where} is no function")
    if name in options:
        return recipe
    if assignment.blocked.intersection((name, *recipe.tools)):
        raise Unreadable(f"{where} is blocked", functions=[name])
    if len(recipe.steps) != (room := len(catalogue.recipes[options[0]].steps)):
        calls = f"{where} comes down to the {len(recipe.steps)} calls {', '.join(recipe.tools)}"
        raise Unreadable(f"{calls}; there is room for {room}", "decompose_failed", [name])
    raise Unreadable(
        f"{where} is not among those offered there: {', '.join(options)}", functions=[name]
    )


# what a planner has to know of a turn in which no call is right
IN_VAIN = {
    "miss_func": "the user asks in vain here for all that the next turn does: each function there "
    "must need a tool that no earlier turn calls and that no other tools can stand in for",
    "miss_param": "the user asks in vain here for what the next turn does, and leaves a value "
    "open: its first function must need a value that only the user can say",
}


def _places(wanted: Pattern, type: TaskType) -> str:
    """The pattern as prompts show it, one line a turn."""
    vain = f"no places ({IN_VAIN.get(type, 'no call is right here')})"
    lines = (showing.compact(turn) if turn else vain for turn in wanted.turns)
    return "\n".join(f"turn {number}: {places}" for number, places in enumerate(lines, 1))


def _links(assignment: StagedAssignment, wanted: Pattern) -> str:
    """What must be kept of the root's flows where the functions do not bring it: which places use
    what others return, over how many calls."""
    if wanted.depth is not None:
        return ""  # whichever are chosen bring it
    chain = "\n" + linking.chain(assignment.profile.depth)
    if not assignment.profile.edges:
        return chain
    fed = set()
    for producer, consumer, _ in assignment.profile.edges:
        such = ", ".join(map(" to ".join, wanted.pairs.get((producer, consumer), ())[:PAIRS]))
        fed.add(
            f"place {consumer[1] + 1} of turn {consumer[0] + 1} from place {producer[1] + 1} of "
            f"turn {producer[0] + 1}" + (f" (such as {such})" if such else "")
        )
    return (
        "\nWhat a call returns must be of use as an argument later, which the user need not say: a "
        "value that is the only one of its kind there, or that words tell from the others. "
        f"This holds for {'; '.join(sorted(fed))}.{chain}"
    )


def _failure_line(error: ComposeError) -> str:
    where = showing.at_turn(error)
    about = "" if error.function is None else f" with {error.function}"
    return f"- {error.type}{where}{about}: {one_line(error.detail[:FAILURE])}"
