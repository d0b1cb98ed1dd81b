"""What a generated world's source must not have in it: looked for in its syntax tree, before any of it runs (003 §3.2).

Nothing here keeps harm away, which is the sandbox's work; it keeps out what makes a world a bad one: what two
processes, or two days, would answer differently. Each fault has the name of its control.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worlds.checking.report import Fault

LONGEST = 200_000  # characters of a source
# What may be imported, by name, and from where.
ALLOWED: dict[str, frozenset[str]] = {
    "__future__": frozenset({"annotations"}),
    "dataclasses": frozenset({"dataclass", "field"}),
    "typing": frozenset({"Annotated", "Any", "Literal", "NamedTuple", "TypedDict"}),
    "collections": frozenset({"Counter", "defaultdict", "deque"}),
    "collections.abc": frozenset({"Iterable", "Iterator", "Mapping", "Sequence"}),
    "math": frozenset({"ceil", "floor", "isqrt"}),
    "pydantic": frozenset({"Field"}),
    "rods.environments.typed": frozenset({"ToolError", "TypedEnvironment"}),
}
NAMED = {"time": "clock", "datetime": "clock", "calendar": "clock", "zoneinfo": "clock", "uuid": "uuid"}
NAMED |= {"random": "randomness", "secrets": "randomness", "numpy": "randomness"}
FORBIDDEN = frozenset(
    {"open", "eval", "exec", "compile", "getattr", "setattr", "delattr", "globals", "locals", "vars", "dir", "input"}
    | {"print", "breakpoint", "help", "exit", "quit", "memoryview", "type", "object", "super"}
)
_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "Counter", "deque"})
_CHANGERS = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard", "update"}
    | {"setdefault", "popitem", "appendleft"}
)
_ORDERLESS = frozenset({"sorted", "len", "sum", "min", "max", "any", "all", "set", "frozenset"})
_ORDERED = frozenset({"list", "tuple", "iter", "enumerate", "zip", "next", "map", "filter", "reversed", "str", "repr"})
_SETTISH = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def program_faults(source: str, where: str) -> list[Fault]:
    """Everything that the syntax tree shows, in the order of lines."""
    if len(source) > LONGEST:
        return [Fault(where, "", f"has {len(source)} characters, at most {LONGEST} are read", "cut it", "syntax")]
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [Fault(where, "", f"is no Python: {error}", "correct it", "syntax")]
    found = sorted({*_imports(tree), *_names(tree), *_shared(tree), *_sets(tree)})
    return [Fault(f"{where}:{line}", "", what, _REMEDIES[control], control) for line, control, what in found]


_REMEDIES = {
    "imports": f"import only from {', '.join(ALLOWED)}",
    "clock": "keep the time in the state",
    "uuid": "number things from a counter in the state",
    "randomness": "draw nothing: whatever varies is in the state",
    "builtins": "do without it",
    "class_state": "keep all state in the world's own dataclass, made anew for each world",
    "set_order": "sort it, or keep a dict or list instead",
}
Found = tuple[int, str, str]  # line, control, what


def _imports(tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, NAMED.get(alias.name.partition(".")[0], "imports"), f"imports {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "."
            for alias in node.names:
                if node.level or alias.name not in ALLOWED.get(module, ()):
                    control = NAMED.get(module.partition(".")[0], "imports")
                    yield node.lineno, control, f"imports {alias.name} from {module}"


def _names(tree: ast.Module) -> Iterator[Found]:
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name.startswith("__") or (isinstance(node, ast.Name) and name in FORBIDDEN):
            yield _line(node), "builtins", f"uses {name}"
        elif isinstance(node, ast.Attribute) and name in ("format", "format_map"):
            yield _line(node), "builtins", f"uses .{name}, which can reach any attribute: write an f-string"
        elif isinstance(node, ast.Name) and name in ("id", "hash"):
            yield node.lineno, "randomness", f"uses {name}(), another number in every process"


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _shared(tree: ast.Module) -> Iterator[Found]:
    """State that worlds would share: of the module, of a class, or in a default."""
    module_names = {each.name for each in tree.body if isinstance(each, (ast.ClassDef, Function))}
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _is_mutable(statement.value):
                yield statement.lineno, "class_state", "keeps something that can be changed outside of the state"
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            module_names |= {each.id for each in statement.targets if isinstance(each, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            module_names.add(statement.target.id)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            yield node.lineno, "class_state", f"changes {', '.join(node.names)} outside of its function"
        elif isinstance(node, Function):
            if any(map(_is_mutable, [*node.args.defaults, *node.args.kw_defaults])):
                yield node.lineno, "class_state", f"{node.name} has a default that can be changed"
            yield from _written(node, module_names)


def _written(function: Function, module_names: set[str]) -> Iterator[Found]:
    own = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    shared = module_names - own
    for node in ast.walk(function):
        changed: ast.expr | None = None
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGERS:
            changed = node.func.value
        while isinstance(changed, (ast.Attribute, ast.Subscript)):
            changed = changed.value
        if isinstance(changed, ast.Name) and changed.id in shared:
            yield _line(node), "class_state", f"{function.name} changes {changed.id}, which all worlds share"


def _is_mutable(value: ast.expr | None) -> bool:
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _MAKERS
    return made or isinstance(value, _MUTABLE)


def _sets(tree: ast.Module) -> Iterator[Found]:
    """Sets whose order is seen: iterated, listed, or given away."""
    fields = {
        node.target.id
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
        for node in each.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _says_set(node.annotation)
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef):
            for node in each.body:
                if isinstance(node, ast.AnnAssign) and _says_set(node.annotation):
                    yield node.lineno, "set_order", "keeps a set in the state, which is written in any order"
        elif isinstance(each, Function):
            yield from _Sets(each, fields).found()


def _says_set(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id in ("set", "frozenset") for node in ast.walk(annotation)
    )


def _are_keys(node: ast.expr) -> bool:
    """Whether it is `….keys()` or `….items()`: two of them joined by an operator are a set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")


class _Sets:
    """The sets of one function."""

    def __init__(self, function: Function, fields: set[str]) -> None:
        self.function, self.fields = function, fields
        self.names: set[str] = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)
                                and _says_set(each.annotation)}  # fmt: skip
        size = -1
        while size != (size := len(self.names)):  # names that are given names
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and self.is_set(node.value):
                    self.names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
                elif isinstance(node, ast.NamedExpr) and self.is_set(node.value):
                    self.names.add(node.target.id)
                elif isinstance(node, ast.AnnAssign) and (_says_set(node.annotation) or self.is_set(node.value)):
                    self.names |= {node.target.id} if isinstance(node.target, ast.Name) else set()

    def is_set(self, node: ast.expr | None) -> bool:
        if isinstance(node, (ast.Set, ast.SetComp)):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.fields
        if isinstance(node, ast.BinOp):
            return any(self.is_set(each) or _are_keys(each) for each in (node.left, node.right))
        if isinstance(node, ast.IfExp):
            return self.is_set(node.body) or self.is_set(node.orelse)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                return node.func.id in ("set", "frozenset")
            return isinstance(node.func, ast.Attribute) and node.func.attr in _SETTISH and self.is_set(node.func.value)
        return False

    def found(self) -> Iterator[Found]:
        harmless = {  # comprehensions that nobody sees the order of
            id(argument)
            for node in ast.walk(self.function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ORDERLESS
            for argument in node.args
        }
        for node in ast.walk(self.function):
            what = ""
            if isinstance(node, (ast.For, ast.AsyncFor)) and self.is_set(node.iter):
                what = "goes through a set"
            elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.DictComp)) and id(node) not in harmless:
                what = "goes through a set" if any(self.is_set(each.iter) for each in node.generators) else ""
            elif isinstance(node, ast.Call):
                what = self._call(node)
            elif isinstance(node, (ast.Starred, ast.FormattedValue)) and self.is_set(node.value):
                what = "spreads a set"
            elif isinstance(node, ast.Return) and self.is_set(node.value):
                what = "gives a set"
            if what:
                yield _line(node), "set_order", f"{self.function.name} {what}, whose order is no one's"

    def _call(self, node: ast.Call) -> str:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if (name in _ORDERED or method in ("join", "fromkeys", "extend")) and any(map(self.is_set, node.args)):
            return "lists a set"
        if method == "pop" and isinstance(node.func, ast.Attribute) and self.is_set(node.func.value):
            return "takes one of a set"
        return ""
