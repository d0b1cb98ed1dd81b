"""Finds what a configuration names: `package.module:function` or `file.py:function`."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from rods.errors import RodsError, UserError


def named_function(name: str, *, where: str, source: str | None = None) -> Any:
    """What `name` stands for; a file is looked for from the current folder, unless its text is
    given (`source`). Raises UserError, saying `where` it was asked for, when it cannot be found or
    its module cannot be run."""
    module_name, _, function_name = name.rpartition(":")
    if not module_name or not function_name:
        remedy = "write it as 'package.module:function' or 'file.py:function'"
        raise UserError(f"{name!r} names no function", where=where, remedy=remedy)
    try:
        module = (
            _run(Path(module_name), source)
            if module_name.endswith(".py")
            else importlib.import_module(module_name)
        )
    except RodsError:
        raise
    except ModuleNotFoundError as error:
        raise UserError(
            f"no module {error.name!r}", where=where, remedy="install it beside rods"
        ) from error
    except FileNotFoundError as error:
        remedy = "start in the folder that it is named from, or name it by its whole path"
        raise UserError(f"no file {module_name}", where=where, remedy=remedy) from error
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [
            frame.lineno for frame in frames if frame.filename == str(Path(module_name).absolute())
        ]
        at = f" in line {lines[-1]}" if lines else ""
        what = f"{module_name}, when it is imported, raised{at} {type(error).__name__}: {error}"
        raise UserError(what, where=where) from error
    if not hasattr(module, function_name):
        raise UserError(f"{module_name} has no {function_name!r}", where=where)
    return getattr(module, function_name)


def late(name: str) -> Any:
    """The function that `name` stands for, whose module is imported when it is called."""
    return lambda *given: named_function(name, where="an extension")(*given)


def _run(file: Path, source: str | None) -> ModuleType:
    """The module in `file`, or of its text, run once a process. It is known by its whole path."""
    file = file.absolute()
    name = str(file)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None, "a name that ends in .py has a loader"
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up while it is run
        try:
            if source is None:
                spec.loader.exec_module(module)
            else:
                # in a process that is confined
                code = compile(source, name, "exec", dont_inherit=True)
                exec(code, vars(module))  # noqa: S102
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def made_by(name: str, kind: type[Any], *, where: str) -> Any:
    """What the factory `name` makes, called without arguments. Raises UserError, saying `where`,
    when it cannot be found, raises something, or makes no `kind` (a protocol that can be asked)."""
    factory = named_function(name, where=where)
    try:
        value = factory()
    except RodsError:
        raise
    except (Exception, SystemExit) as error:
        what = f"{name}, called without arguments, raised {type(error).__name__}: {error}"
        raise UserError(
            what, where=where, remedy="name a function that makes the object"
        ) from error
    if not isinstance(value, kind):
        raise UserError(
            f"{name} makes a {type(value).__name__}, which is no {kind.__name__}", where=where
        )
    return value
