"""BFCL's file system: new trees with names and texts of their own, longer ones, and what may be
chosen from one."""

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rods.canonical import JsonMapping, JsonObject
from rods.composing.catalogue import Constant, Domain, FromEarlierRecipe, FromResult, Recipe, Scene
from rods.worlds.bfcl.catalogue.scenario import (
    FIRST_NAMES,
    WORDS,
    ClassCatalogue,
    ScenarioRequest,
    tables,
)

GROUP = "GorillaFileSystem"
_TABLES = tables("files")
_POOLS: Mapping[str, tuple[str, ...]] = _TABLES.pools
_NAMES: Mapping[str, tuple[str, ...]] = WORDS.pools
_STEMS = _POOLS["stems"]
_FOLDERS = _POOLS["folders"]
_NEW_STEMS = _POOLS["new_stems"]
_NEW_FOLDERS = _POOLS["new_folders"]
_WORD = re.compile(r"[A-Za-z]{4,}")
_WORDS_OF_A_LINE = {
    "items": "items",
    "firm": "firms",
    "place": "places",
    "day": "weekdays",
    "month": "months",
}


def make(request: ScenarioRequest) -> JsonObject:
    """A tree whose first directories lead as deep as the recipes go down."""
    maker = TreeMaker(request)
    root = request.fresh(_POOLS["roots"])[0]
    contents = maker.folder(_deepest(request.recipes))
    if request.rng.random() < 0.3:  # a hidden file
        contents[f".{request.rng.choice(('profile', 'settings', 'history'))}"] = _file("mode=quiet")
    return {"root": {root: {"type": "directory", "contents": contents}}}


def pad(scenario: JsonObject, spoken: frozenset[str], rng: random.Random) -> None:
    """Adds files and directories to every directory of the scenario, none of them with a `spoken`
    word in its name."""
    maker = TreeMaker(ScenarioRequest((), spoken, {}, rng))
    (root,) = list(scenario["root"].values())[:1]
    waiting = [root["contents"]]
    while waiting:
        contents = waiting.pop()
        waiting += [item["contents"] for item in contents.values() if item["type"] == "directory"]
        if len(contents) > 1:  # where there is a single file, it stays single
            maker.lengthen(contents, spoken)


class TreeMaker:
    """Makes directories with names that occur once in the tree."""

    def __init__(self, request: ScenarioRequest) -> None:
        self.request = request
        self.rng = request.rng
        self.stems = self._shuffled(_STEMS)
        self.folders = self._shuffled(_FOLDERS)
        self.topic = request.narrative.get("topic", "").split()
        self.lone = request.mentions("lone_folder")
        self.empty = request.mentions("empty_folder")
        self.used: set[str] = set()

    def folder(self, deeper: int) -> JsonObject:
        """A directory with files and directories; its first directory goes `deeper`."""
        contents = {self.name(): self.file(brief=False) for _ in range(self.rng.randint(2, 3))}
        contents |= {self.name(): self.file(brief=True) for _ in range(self.rng.randint(1, 2))}
        contents = {name: contents[name] for name in self.rng.sample(list(contents), len(contents))}
        inner = [self.folder(deeper - 1)] if deeper else []
        for _ in range(self.rng.randint(1, 2)):
            inner.append({self.name(): self.file(brief=False) for _ in range(2)})
        if self.lone:
            inner.append({self.name(): self.file(brief=False)})
        if self.empty:
            inner.append({})
        self.rng.shuffle(inner)
        for held in inner:
            contents[self.folder_name()] = {"type": "directory", "contents": held}
        return contents

    def lengthen(self, contents: JsonObject, spoken: frozenset[str]) -> None:
        """More files at the end, so that what came first stays first."""
        for _ in range(self.rng.randint(4, 8)):
            name = self.name(numbered=True)
            if name not in contents and spoken.isdisjoint(re.findall(r"\w+", name.lower())):
                contents[name] = self.file(brief=False)

    def name(self, *, numbered: bool = False) -> str:
        if not self.stems:
            self.stems = self._shuffled(_STEMS)
        stem = self.stems.pop()
        if numbered:
            stem = f"{stem}_{self.rng.randint(100, 999)}"
        elif self.topic and self.rng.random() < 0.25:
            stem = f"{self.topic[-1]}_{stem}"
        elif self.rng.random() < 0.2:
            stem = f"{stem}_{self.rng.choice(_POOLS['marks'])}"
        name = stem + self.rng.choice(_POOLS["endings"])
        while name in self.used:
            name = f"{stem}_{self.rng.randint(2, 99)}.txt"
        self.used.add(name)
        return name

    def folder_name(self) -> str:
        if not self.folders:
            self.folders = [
                f"{name}_{self.rng.randint(2, 99)}" for name in self._shuffled(_FOLDERS)
            ]
        return self.folders.pop()

    def file(self, *, brief: bool) -> JsonObject:
        count = 1 if brief else self.rng.randint(3, 6)
        return _file("\n".join(self._line() for _ in range(count)))

    def _line(self) -> str:
        person, other = self.rng.sample(FIRST_NAMES, 2)
        line: str = self.rng.choice(_POOLS["lines"])
        words = {name: self.rng.choice(_NAMES[pool]) for name, pool in _WORDS_OF_A_LINE.items()}
        return line.format(
            person=person,
            other=other,
            date=self.rng.randint(1, 28),
            count=self.rng.randint(3, 48),
            amount=self.rng.randint(12, 98) * 10,
            **words,
        )

    def _shuffled(self, pool: Sequence[str]) -> list[str]:
        """The pool in a random order, what the seed's state holds at the front (so that it is
        popped last)."""
        names = self.rng.sample(pool, len(pool))
        return sorted(names, key=lambda name: name not in self.request.taken)


def _file(content: str) -> JsonObject:
    return {"type": "file", "content": content}


def _deepest(recipes: Sequence[Recipe]) -> int:
    """How many levels below the root the recipes go into directories that are there from the
    start."""
    level = deepest = 0
    for recipe in recipes:
        for step in recipe.steps:
            if step.tool != "cd":
                continue
            if isinstance(step.arguments["folder"], Constant):
                level = max(level - 1, 0)
            else:
                level += 1
                # or filled, on the way
                fresh = isinstance(step.arguments["folder"], (FromEarlierRecipe, FromResult))
                deepest = deepest if fresh else max(deepest, level)
    return deepest


@dataclass(slots=True)
class Folder:
    """A directory with its files' contents and its directories, both in the order of the
    listing."""

    files: dict[str, str] = field(default_factory=dict)
    folders: "dict[str, Folder]" = field(default_factory=dict)

    def names(self) -> set[str]:
        return {*self.files, *self.folders}

    def below(self) -> list[str]:
        """The names of everything in it, at any depth."""
        names = [*self.files]
        for name, folder in self.folders.items():
            names += [name, *folder.below()]
        return names


def current(state: JsonMapping) -> Folder:
    """The directory in which one stands, in a state or a snapshot; a recipe that first goes
    somewhere has chosen where. Raises KeyError when there is no file system."""
    record = state.get("objects", {}).get(GROUP)
    if record is not None:
        return _of_record(record, record["current"], frozenset())
    roots = state["config"].get(GROUP, {}).get("root") or {"/": {"contents": {}}}
    return _of_scenario(next(iter(roots.values()))["contents"])


def _of_scenario(contents: JsonMapping) -> Folder:
    inner = {key: item["contents"] for key, item in contents.items() if item["type"] == "directory"}
    files = {key: item["content"] for key, item in contents.items() if key not in inner}
    return Folder(files, {key: _of_scenario(held) for key, held in inner.items()})


def _of_record(record: JsonMapping, index: int, above: frozenset[int]) -> Folder:
    folder = Folder()
    for key, sort, place in record["contents"][record["directories"][index][2]]:
        if sort == "file":
            folder.files[key] = record["files"][place][1]
        elif place not in above:  # a directory may have been copied into itself
            folder.folders[key] = _of_record(record, place, above | {index})
    return folder


def _shown(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


def _files(scene: Scene) -> list[str]:
    taken = {scene.chosen.get(slot) for slot in ("file", "text", "brief")}
    return [name for name in _shown(list(current(scene.state).files)) if name not in taken]


def _texts(scene: Scene) -> list[str]:
    """Files of several lines."""
    files = current(scene.state).files
    return [name for name in _files(scene) if "\n" in files[name]]


def _brief(scene: Scene) -> list[str]:
    files = current(scene.state).files
    return [
        name
        for name in _files(scene)
        if files[name] and "\n" not in files[name] and len(files[name]) <= 120
    ]


def _enterable(scene: Scene) -> list[str]:
    """Directories with something to do in them, the fullest kind first."""
    folders = current(scene.state).folders
    good = [name for name, folder in folders.items() if len(folder.files) > 1]
    return [name for name in good if folders[name].folders] or good


def _targets(scene: Scene) -> list[str]:
    """Directories that hold nothing called like what goes into them, and something else, unless
    the user has just had them made."""
    moving = {scene.chosen.get(slot) for slot in ("file", "first")} - {None}
    made = [call.arguments.get("dir_name") for call, _ in scene.calls]
    return [
        name
        for name, folder in current(scene.state).folders.items()
        if moving.isdisjoint(folder.names()) and (folder.files or folder.folders or name in made)
    ]


def _folders(fit: Callable[[Folder], bool]) -> Domain:
    """The directories here that `fit`."""
    return lambda scene: [
        name for name, folder in current(scene.state).folders.items() if fit(folder)
    ]


def _new(scene: Scene, names: Iterable[str]) -> list[str]:
    """Those of the names that nothing here or below has."""
    taken = set(current(scene.state).below())
    return [name for name in names if name not in taken]


def _of_topic(scene: Scene, names: Sequence[str], some: int) -> list[str]:
    """The names, and the first few with a word of the story's topic."""
    topic = scene.narrative.get("topic", "").split()
    return [*names, *(f"{topic[-1]}_{name}" for name in names[:some] if topic)]


def _new_names(scene: Scene) -> list[str]:
    """New names for the chosen file, with its ending."""
    old = next((scene.chosen[slot] for slot in ("file", "first") if slot in scene.chosen), "")
    stem, dot, ending = old.rpartition(".")
    ending = dot + ending if dot else ".txt"
    names = [f"{new}{ending}" for new in _NEW_STEMS]
    if stem:
        marks = ("final", "backup", "revised", "checked", "approved", "copy")
        names += [f"{stem}_{mark}{ending}" for mark in marks for _ in "ab"]
    return _new(scene, names)


def _words_of(content: str) -> list[str]:
    return sorted(set(_WORD.findall(content)))


def _lone_patterns(scene: Scene) -> list[str]:
    """Words that stand in exactly one line: a word inside a longer one would be found there too."""
    lines = current(scene.state).files[scene.chosen["text"]].splitlines()
    words = {word for line in lines for word in _WORD.findall(line)}
    return sorted(word for word in words if sum(word in line for line in lines) == 1)


def _parts(scene: Scene) -> list[str]:
    """Words in the names of what is here or below."""
    stems = (name.rpartition(".")[0] or name for name in _shown(current(scene.state).below()))
    return sorted({word for stem in stems for word in _WORD.findall(stem)})


DOMAINS: Mapping[str, Domain] = {
    "file": _files,
    "other_file": _files,
    "text_file": _texts,
    "other_text": _texts,
    "brief": _brief,
    "folder": _enterable,
    "target": _targets,
    "leaf": _folders(lambda folder: not folder.folders and len(folder.files) > 1),
    "lone_folder": _folders(lambda folder: not folder.folders and len(folder.files) == 1),
    "empty_folder": _folders(lambda folder: not folder.names()),
    "new_file": lambda scene: _new(
        scene,
        (stem + ending for stem in _of_topic(scene, _NEW_STEMS, 9) for ending in (".txt", ".md")),
    ),
    "new_name": _new_names,
    "new_folder": lambda scene: _new(scene, _of_topic(scene, _NEW_FOLDERS, 6)),
    "pattern": lambda scene: _words_of(current(scene.state).files[scene.chosen["text"]]),
    "known_pattern": lambda scene: _words_of(
        current(scene.state).files.get(scene.chosen.get("file", ""), "")
    ),
    "lone_pattern": _lone_patterns,
    "part": _parts,
    "lines": lambda scene: range(
        2, len(current(scene.state).files[scene.chosen["text"]].splitlines())
    ),
}
FILES = ClassCatalogue(GROUP, _TABLES, DOMAINS, make, pad)
