"""The file system's graph of directories and files: copied, compared, counted and written down.

It is a graph and not a tree: copying a directory shares its children between both places, moving
one leaves the children's `parent` pointing at the old directory, and a directory copied into itself
holds itself. The API classes behave so, and a copy must go on behaving so; therefore every walk
here remembers what it has seen and uses no recursion. Equality is the classes' own: name and
contents, parents ignored.
"""

from collections.abc import Iterator
from typing import Any

from rods.canonical import JsonObject

MAX_PATHS = 20_000  # recursive tools (find, du) are refused in a graph with more paths than this


def copy_tree(system: Any) -> None:
    """Gives `system` directories of its own; the files are still shared."""
    kind = type(system.root)
    directories = list(_directories(system))
    copies = {id(directory): object.__new__(kind) for directory in directories}
    contents_by_id: dict[int, JsonObject] = {}
    for directory in directories:
        fresh = copies[id(directory)]
        fresh.name = directory.name
        fresh.parent = None if directory.parent is None else copies[id(directory.parent)]
        contents = contents_by_id.get(id(directory.contents))
        if contents is None:  # a moved directory shares its dict with the one it left behind
            contents = contents_by_id[id(directory.contents)] = directory.contents.copy()
            for name, item in contents.items():
                if type(item) is kind:
                    contents[name] = copies[id(item)]
        fresh.contents = contents
    system.root = copies[id(system.root)]
    system._current_dir = copies[id(system._current_dir)]


def own_file(system: Any, name: Any) -> None:
    """Replaces file `name` of the current directory by a copy, wherever the same file is held.
    Directories must be the system's own. Does nothing when there is no such file."""
    directory = system._current_dir
    try:
        file = directory.contents.get(name)
    except TypeError:  # an unhashable name: the tool itself will complain
        return
    if file is None or type(file) is type(directory):
        return
    fresh = object.__new__(type(file))
    fresh.__dict__.update(file.__dict__)
    for holder in _directories(system):
        held = holder.contents
        for key, item in held.items():
            if item is file:
                held[key] = fresh


def same_tree(actual: Any, expected: Any) -> bool:
    """Whether two directories are equal as the classes say: names equal, and contents equal as
    dicts."""
    kind = type(expected)
    seen: set[tuple[int, int]] = set()
    waiting = [(actual, expected)]
    while waiting:
        left, right = waiting.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        seen.add((id(left), id(right)))
        if left.name != right.name or len(left.contents) != len(right.contents):
            return False
        others = right.contents
        for name, item in left.contents.items():
            if name not in others:
                return False
            other = others[name]
            if item is other:
                continue
            if type(item) is not type(other):
                return False
            if type(item) is kind:
                waiting.append((item, other))
            elif item.name != other.name or item.content != other.content:
                return False
    return True


def too_many_paths(directory: Any) -> bool:
    """Whether a recursive walk from `directory` would visit more than MAX_PATHS entries (endless
    ones included)."""
    count = 0
    kind = type(directory)
    waiting = [directory]
    while waiting:
        contents = waiting.pop().contents
        count += len(contents)
        if count > MAX_PATHS:
            return True
        waiting.extend(item for item in contents.values() if type(item) is kind)
    return False


def encode_system(system: Any) -> JsonObject:
    """The graph as JSON: a list of directories and one of files, referring to each other by
    position."""
    directories = list(_directories(system))
    place = {id(directory): index for index, directory in enumerate(directories)}
    kind = type(system.root)
    held = {id(directory.contents): directory.contents for directory in directories}
    files = {
        id(item): item
        for contents in held.values()
        for item in contents.values()
        if type(item) is not kind
    }
    held_place, file_place = (
        {key: index for index, key in enumerate(nodes)} for nodes in (held, files)
    )

    def entry(name: str, item: Any) -> list[Any]:
        return (
            [name, "directory", place[id(item)]]
            if type(item) is kind
            else [name, "file", file_place[id(item)]]
        )

    return {
        "directories": [
            [d.name, None if d.parent is None else place[id(d.parent)], held_place[id(d.contents)]]
            for d in directories
        ],
        "contents": [
            [entry(name, item) for name, item in contents.items()] for contents in held.values()
        ],
        "files": [[file.name, file.content] for file in files.values()],
        "root": place[id(system.root)],
        "current": place[id(system._current_dir)],
    }


def decode_system(system: Any, record: JsonObject) -> None:
    """Puts the graph written by `encode_system` into `system`. Raises ValueError when the record is
    not one."""
    directory_type = type(system.root)
    file_type = directory_type._add_file.__globals__["File"]
    try:
        files = [file_type(name, content) for name, content in record["files"]]
        directories = [directory_type(name, None) for name, _, _ in record["directories"]]
        nodes = {"directory": directories, "file": files}
        contents = [
            {name: nodes[sort][index] for name, sort, index in entries}
            for entries in record["contents"]
        ]
        for directory, (_, parent, held) in zip(directories, record["directories"], strict=True):
            directory.parent = None if parent is None else directories[parent]
            directory.contents = contents[held]
        system.root = directories[record["root"]]
        system._current_dir = directories[record["current"]]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a file system snapshot: {error}") from error


def _directories(system: Any) -> Iterator[Any]:
    """Every directory that can be reached, each once, in a fixed order."""
    kind = type(system.root)
    seen: set[int] = set()
    waiting = [system._current_dir, system.root]
    while waiting:
        directory = waiting.pop()
        if id(directory) in seen:
            continue
        seen.add(id(directory))
        yield directory
        if directory.parent is not None:
            waiting.append(directory.parent)
        waiting.extend(item for item in directory.contents.values() if type(item) is kind)
