"""Controls of a generated world: is it fit to draw tasks in? (003 §3.3 asks models that; these ask
the world.)

Its syntax tree is looked at first (`programs`), and only what passes is run, confined. It is held
to what every environment promises (`environments`), and to more: it offers what was planned;
reading changes nothing and a change that succeeds changes something; it refuses instead of raising;
every tool succeeds once; checks answer true or false; no call runs away."""

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rods.analysis.sampling import Sampler
from rods.canonical import JsonMapping, canonical, keyed_random
from rods.environments import addressed
from rods.environments.base import Tools, checks
from rods.environments.loading import Environments
from rods.errors import BrokenEnvironment
from rods.family.environments.checking.walks import Drawing, Walk, walks
from rods.files import read_toml
from rods.syntax import parse
from rods.worlds.checking import CheckReport, Fault
from rods.worlds.checking.environments import Probe, differs, probe_state, script
from rods.worlds.checking.runaway import LONGEST, attempts

ROUNDS = 6  # sampled calls a tool in every state
LASTING = 1_000  # calls in a row after which the state is still small and within its bounds
AGAIN = 2  # one walk in so many is walked again elsewhere
DAYS = 400  # later
LOOK = 50  # calls between two looks at how large it is
ENTRIES = 200  # of one table, at most


def check_world(
    name: str,
    plan: Mapping[str, Sequence[str]],
    states: Sequence[JsonMapping],
    environments: Environments,
    *,
    random_seed: int = 0,
) -> CheckReport:
    """Controls the world called `name` (`rods.environments.addressed`), which was to have the tools
    and checks of `plan` (names, and their parameters in order), in its empty state and in `states`,
    where all of its tools are to be of use. Raises UserError when its file is not there, or is
    another one, or it cannot be confined as is demanded, and InfrastructureError where the
    machinery broke."""
    file = name.rpartition(":")[0]
    if faults := program_faults(addressed.source_of(name, environments.folders), file):
        return CheckReport(name, tuple(faults))
    try:
        environment = environments.load(name)
        offered = {**environment.tools(), **checks(environment)}
    except BrokenEnvironment as error:
        return CheckReport(name, (Fault(file, "", str(error), "correct it", "loads"),))
    if not name.endswith(environment.name) or addressed.address_of(environment.name) is None:
        return CheckReport(
            name,
            (
                Fault(
                    file,
                    "name",
                    f"calls itself {environment.name}",
                    "name it by its address",
                    "loads",
                ),
            ),
        )
    probe = Probe(environment)
    probe.patience = math.inf  # its process has a deadline of its own
    for tool_name, what, remedy in _signatures(offered, plan):
        probe.fault(tool_name, "", what, remedy, "signature")
    for tool_name, tool in offered.items():
        probe.read(tool_name, tool, "documents")
        if tool.reads is None:
            probe.fault(
                tool_name,
                "reads",
                "does not say whether it changes the state",
                "write reads=True, or reads=False",
                "documents",
            )
    if probe.faults:
        return CheckReport(name, tuple(probe.faults))
    for number, state in enumerate((None, *states)):
        probe.control = "reset"
        with probe.guarded(name, "reset"):
            calls = script(probe, state, random_seed=random_seed + number, rounds=ROUNDS)
            probe_state(probe, state, calls, f"state {number}")
    probe.control = "errors"
    walked = list[Walk]()
    for state in (None, *states) if probe.comparable else ():
        with probe.guarded(name):
            walked += walks(probe, state, random_seed)
    if walked and not probe.hung:
        with probe.guarded(name):
            _elsewhere(probe, name, environments, walked)
    for state in states:
        with probe.guarded(name):
            _checks(probe, state, random_seed)
    for state in states[:1]:
        with probe.guarded(name):
            _lasting(probe, state, random_seed)
    for tool_name in sorted(set(environment.tools()) - probe.reached - probe.hung):
        probe.fault(
            tool_name,
            "",
            "never answered without an error",
            "give it something to do, or drop it",
            "reach",
        )
    with probe.guarded(name):
        _runaways(probe)
    facts = {
        "tools": len(environment.tools()),
        "checks": len(checks(environment)),
        "calls": probe.calls,
    }
    return CheckReport(name, tuple(probe.faults), tuple(probe.notes), facts)


def _signatures(
    offered: Tools, plan: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, str]]:
    """(tool, what, remedy) for everything that is not as planned."""
    for name in sorted({*offered, *plan}):
        if name not in plan:
            yield name, "was not planned", "plan it, or take it out"
        elif name not in offered:
            yield name, "was planned, and is not there", "write it"
        elif list(offered[name].parameter_names) != list(plan[name]):
            what = (
                f"takes ({', '.join(offered[name].parameter_names)}), but was to take "
                f"({', '.join(plan[name])})"
            )
            yield name, what, "take what was planned, in that order"


def _checks(probe: Probe, state: JsonMapping, random_seed: int) -> None:
    """Checks answer true or false, and change nothing (else the world itself raises)."""
    probe.control = "checks"
    sampler = Sampler(keyed_random(random_seed, "checks"))
    sampler.learn("", state)
    instance = probe.fresh(state)
    for check in checks(probe.environment).values():
        for _ in range(3):
            call = sampler.call(check)
            try:
                result = instance.call(call)
            except BrokenEnvironment as error:
                control = "pure_checks" if "changed the state" in str(error) else "errors"
                probe.fault(
                    check.name,
                    "",
                    f"raised on {call}: {str(error)[:200]}",
                    "answer true or false",
                    control,
                )
                break
            if result.error is None and type(result.value) is not bool:
                probe.fault(
                    check.name, "", f"answered {result.text[:80]} to {call}", "answer true or false"
                )


def _elsewhere(probe: Probe, name: str, environments: Environments, walked: Sequence[Walk]) -> None:
    """Walks give the same in a process that has done nothing else before, one after the other from
    the last to the first, on another day, and with other environment variables: nothing is
    remembered, and nothing is read, but the state."""
    probe.control = "elsewhere"
    with Environments(environments.sandbox, *environments.folders) as others:
        environment = others.load(name)
        if shift := getattr(environment, "shift", None):
            shift(DAYS)
        other = Probe(environment)
        other.patience = math.inf
        for walk in walked[::-AGAIN]:
            at = differs([*walk.replies], other.replies(other.fresh(walk.state), walk.calls))
            if at is not None:
                what = f"does {walk.calls[at]} otherwise in another process on another day"
                remedy = "keep all that is remembered in fields of the state, and read nothing else"
                probe.fault(walk.calls[at].name, "", what, remedy)


def _lasting(probe: Probe, state: JsonMapping, random_seed: int) -> None:
    """Many changes in a row leave a state within its bounds, which `reset` takes, and which does
    not swell: one that doubles with each change is enormous after few."""
    probe.control = "runaway"
    drawing = Drawing(keyed_random(random_seed, "lasting"))
    instance = probe.fresh(state)
    picture = instance.snapshot()
    makers = [tool for tool in probe.environment.tools().values() if not tool.reads]
    for number in range(LASTING if makers else 0):
        if number % LOOK == 0:
            drawing.see(picture)
            maker = makers[number // LOOK % len(makers)]
            drawing.pin(picture, drawing.table(maker, picture))
        call = drawing.call(makers[number % len(makers)])
        drawing.heard(call, probe.call(instance, call).error is None)
        if (number + 1) % LOOK:
            continue
        picture = instance.snapshot()
        if (size := len(canonical(picture))) > LONGEST:
            what = f"made a state of {size} bytes by {call}"
            probe.fault(call.name, "", what, "bound what is kept")
            return
    for name, table in picture.items():
        many = max(ENTRIES, len(state.get(name, ()) if isinstance(table, (dict, list)) else ()))
        if isinstance(table, (dict, list)) and len(table) > many:
            what = f"has {len(table)} entries after {LASTING} calls, and was to have {many} at most"
            probe.fault(name, "", what, "bound what is kept")
    try:
        probe.fresh(picture)
    except ValueError as error:
        what = f"refuses the state after {LASTING} calls: {str(error)[:200]}"
        probe.fault("reset", "state", what, "keep the bounds of the state", "bounds")


def _runaways(probe: Probe) -> None:
    """No enormous argument makes a call run away, raise, or give an enormous result."""
    probe.control = "runaway"
    instance = probe.reset(None)
    for argument, call in attempts(probe.environment.tools()):
        result = probe.call(instance, call)
        if len(result.text) > LONGEST:
            probe.fault(
                call.name,
                argument,
                f"with an enormous value gave a result of {len(result.text)} characters",
                "bound the argument",
            )


LONGEST_FILE = 200_000  # characters of a source
_TABLES = read_toml(Path(__file__).with_suffix(".toml"))
OFFERED: dict[str, list[str]] = _TABLES["offered"]
ALLOWED: dict[str, list[str]] = _TABLES["allowed"] | OFFERED
# in prompts
OFFERED_TEXT = ", ".join(f"{module} ({', '.join(names)})" for module, names in OFFERED.items())
NAMED = {module: control for control, modules in _TABLES["named"].items() for module in modules}
FORBIDDEN = frozenset(_TABLES["forbidden"])
FRAMES = frozenset(_TABLES["frames"])
_MAKERS, _CHANGERS = map(frozenset, _TABLES["collections"].values())
_REMEDIES = {"imports": f"import no more than {OFFERED_TEXT}", **_TABLES["remedies"]}
_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
Function = ast.FunctionDef | ast.AsyncFunctionDef
OneTarget = ast.AnnAssign | ast.NamedExpr


def program_faults(source: str, where: str) -> list[Fault]:
    """Everything that the syntax tree shows, in the order of lines."""
    if len(source) > LONGEST_FILE:
        return [
            Fault(
                where,
                "",
                f"has {len(source)} characters, at most {LONGEST_FILE} are read",
                "cut it",
                "syntax",
            )
        ]
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = (
            f"{where}:{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else where
        )
        return [Fault(place, "", f"is no Python: {error}", "correct it", "syntax")]
    faults = sorted({*_imports(tree), *_names(tree), *_shared(tree)})
    return [
        Fault(f"{where}:{line}", "", what, _REMEDIES[control], control)
        for line, control, what in faults
    ]


Found = tuple[int, str, str]  # line, control, what


def _imports(tree: ast.Module) -> Iterator[Found]:
    """Of a module that is imported whole, its offered names alone are used: it may hold other
    modules."""
    modules = dict[str, str]()  # by what they are called here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name
                first = alias.name.partition(".")[0]
                modules[alias.asname or first] = whole if alias.asname else first
                if whole not in OFFERED:
                    yield node.lineno, NAMED.get(first, "imports"), f"imports {whole}"
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "."
            for alias in node.names:
                if node.level or alias.name not in ALLOWED.get(module, ()):
                    control = NAMED.get(module.partition(".")[0], "imports")
                    yield node.lineno, control, f"imports {alias.name} from {module}"
    within = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        used = within.get(id(node))
        path = modules.get(node.id, "") if isinstance(node, ast.Name) else ""
        while used is not None and (inner := f"{path}.{used.attr}") in OFFERED:
            used = within.get(id(used))
            path = inner
        if path in OFFERED and (used is None or used.attr not in OFFERED[path]):
            yield (
                _line(node),
                "imports",
                f"uses {path}.{used.attr}" if used else f"uses the module {path} itself",
            )


def _names(tree: ast.Module) -> Iterator[Found]:
    """A name may be given a value of the world's own, and a field may have any."""
    nodes = list(ast.walk(tree))
    bound = [(node, _bound(node)) for node in nodes if isinstance(node, Function)]
    own = {
        id(name)
        for function, its in bound
        for name in ast.walk(function)
        if getattr(name, "id", "") in its
    }
    fields = {
        name
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for name in set().union(*map(_given_names, node.body))
    }
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        name = getattr(node, "id", getattr(node, "attr", ""))  # of a name, of an attribute
        loaded = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if name.startswith("__") or name in FRAMES or (loaded and name in FORBIDDEN):
            yield _line(node), "builtins", f"uses {name}"
        elif (
            name in ("format", "format_map")
            and not loaded
            and (name not in fields or id(node) in called)
        ):
            yield (
                _line(node),
                "builtins",
                f"uses .{name}, which can reach any attribute: write an f-string",
            )
        elif loaded and name in ("id", "hash") and id(node) not in own:
            yield _line(node), "randomness", f"uses {name}(), another number in every process"


def _bound(function: Function) -> set[str]:
    """The names that a function gives a value."""
    names = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names | {
        parameter.arg for parameter in ast.walk(function) if isinstance(parameter, ast.arg)
    }


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _shared(tree: ast.Module) -> Iterator[Found]:
    """State that worlds would share: of the module, of a class, or in a default."""
    module_names = {
        definition.name
        for definition in tree.body
        if isinstance(definition, (ast.ClassDef, Function))
    }
    module_names.update(*map(_given_names, tree.body))
    module_names.update(
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    )
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _is_mutable(statement.value):
                yield (
                    statement.lineno,
                    "class_state",
                    "keeps something that can be changed outside of the state",
                )
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield (
                node.lineno,
                "class_state",
                f"changes {', '.join(node.names)} outside of its function",
            )
        elif isinstance(node, Function):
            if any(map(_is_mutable, [*node.args.defaults, *node.args.kw_defaults])):
                yield node.lineno, "class_state", f"{node.name} has a default that can be changed"
            yield from _written(node, module_names)


def _written(function: Function, module_names: set[str]) -> Iterator[Found]:
    shared = module_names - _bound(function)
    for node in ast.walk(function):
        changed: ast.expr | None = None
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
            node.ctx, (ast.Store, ast.Del)
        ):
            changed = node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGERS
        ):
            changed = node.func.value
        while isinstance(changed, (ast.Attribute, ast.Subscript)):
            changed = changed.value
        if isinstance(changed, ast.Name) and changed.id in shared:
            yield (
                _line(node),
                "class_state",
                f"{function.name} changes {changed.id}, which all worlds share",
            )


def _given_names(node: ast.AST) -> set[str]:
    """The names that are given a value here."""
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, OneTarget)
        else []
    )
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_mutable(value: ast.expr | None) -> bool:
    is_call = (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in _MAKERS
    )
    return is_call or isinstance(value, _MUTABLE)
