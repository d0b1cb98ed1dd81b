"""`rods`: the verbs. Each lives in a module that is imported only when its verb is called, so that help and
`status` are quick and need no torch.

Exit codes are those of `rods.errors`: 0 done, 1 a check found something wrong, 2 bad input, 3 refused, 4 deadline,
5 stopped by a signal after a clean checkpoint. A person's mistake is one line on standard error, never a traceback.
"""

import sys
import tomllib
from pathlib import Path

from cyclopts import App

from rods import commands
from rods.environments.registry import having
from rods.extension import extensions
from rods.signals import ignore, interrupt, on_signal

OWN = tomllib.loads(Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8"))


def verbs() -> dict[str, tuple[str, str]]:
    """All verbs: the whole name of each function, and what help says. Ours, then those that folders of rods/worlds
    declare, then those of extensions."""
    named = {verb: (f"rods.console.verbs.{target}", text) for verb, (target, text) in OWN["verbs"].items()}
    named |= {verb: (target, text) for said in having("verbs").values() for verb, (target, text) in said.items()}
    for extension in extensions():
        folder = type(extension).__module__.rpartition(".")[0]
        named |= {verb: (f"{folder}.{target}", text) for verb, (target, text) in extension.verbs.items()}
    return named


def application() -> App:
    """The command line with all verbs registered, none of them imported yet."""
    app = commands.application("rods", "Reward-driven online data synthesis for multi-turn tool-use RL.")
    groups = dict(OWN["groups"])
    for extension in extensions():
        groups |= extension.verb_groups
    apps = {name: App(name=name, help=text) for name, text in groups.items()}
    for verb, (target, text) in verbs().items():
        group, _, name = verb.rpartition(" ")
        (apps[group] if group else app).command(target, name=name, help=text)
    for group_app in apps.values():
        app.command(group_app)
    return app


def main() -> None:
    """Runs one verb and exits with its code. SIGTERM interrupts as Ctrl-C does, once there is a verb to interrupt."""
    app = application()
    on_signal(interrupt)
    code = run(sys.argv[1:], app)
    ignore()
    raise SystemExit(code)


def run(arguments: list[str], app: App | None = None) -> int:
    """Runs one verb and returns the exit code (rods.commands.run). Without arguments: the help."""
    early = arguments[:1] == ["up"]  # while it creates the run: nothing has been started
    stopped = "stopped; start the same command again" if early else "interrupted"
    return commands.run(app or application(), arguments or ["--help"], stopped, requeue=early)
