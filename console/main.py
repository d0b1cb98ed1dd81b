"""`rods`: the verbs. Each lives in a module that is imported only when its verb is called, so that
help and `status` are quick and need no torch. Programs of their own (`rods train`) are handed their
arguments.

Exit codes are those of `rods.errors`: 0 done, 1 a check found something wrong, 2 bad input, 3
refused, 4 deadline, 5 stopped by a signal after a clean checkpoint. A person's mistake is one line
on standard error, never a traceback.
"""

import sys
from collections.abc import Mapping, Sequence

from cyclopts import App, Group

from rods import commands
from rods.environments.registry import declared, having
from rods.extension import Door
from rods.files import module_table
from rods.functions import named_function
from rods.signals import ignore, interrupt, on_signal

OWN = module_table(__file__, "verbs.toml")
PROGRAM = "program"
# verbs of features, as those of verbs.toml
VERBS: Door[Mapping[str, tuple[str, ...]]] = Door("verbs")
COMPLETION = "--install-completion"


def verbs() -> dict[str, Sequence[str]]:
    """All verbs by name, and the nouns that some stand below: the function ("": a noun), what help
    says, and the heading of what stands at the top (PROGRAM: it has a command line of its own).
    Ours, then those that folders of rods/worlds and of rods/family declare, then those of
    extensions."""
    named = dict(OWN["verbs"])
    declarations = declared("rods.family", "verbs.toml").values()
    for more in (*having("verbs").values(), *declarations, *VERBS):
        named |= more
    return named


def programs() -> dict[str, Sequence[str]]:
    """Those verbs that hand their arguments to a program."""
    return {verb: entry for verb, entry in verbs().items() if entry[-1] == PROGRAM}


def application() -> App:
    """The command line with all verbs registered, none of them imported yet."""
    alone = "; ".join(
        f"`rods {name}` or `rods-{name}`, {entry[1]}" for name, entry in programs().items()
    )
    about = "Reward-driven online data synthesis for multi-turn tool-use RL."
    apps = {"": commands.application("rods", f"{about}\n\nPrograms on their own: {alone}.")}
    headings = {name: Group.create_ordered(text) for name, text in OWN["headings"].items()}
    for verb, (target, text, *heading) in verbs().items():
        above, _, name = verb.rpartition(" ")
        group = headings.get(heading[0]) if heading else None
        if not target:
            apps[verb] = App(name=name, help=text, group=group)
            apps[above].command(apps[verb])
        elif heading != [PROGRAM]:
            apps[above].command(
                target, name=name, help=text, group=group, default_parameter=commands.USUAL
            )
        elif COMPLETION in sys.argv:  # for what a shell completes behind `rods train`
            own = named_function(
                target.replace(".__main__:main", ".main:application"), where=f"rods {verb}"
            )()
            apps[above].command(own, name=name)
    return apps[""]


def main() -> None:
    """Runs one verb and exits with its code. SIGTERM interrupts as Ctrl-C does, once there is a
    verb to interrupt."""
    app = application()
    on_signal(interrupt)
    code = run(sys.argv[1:], app)
    ignore()
    raise SystemExit(code)


def hand_over() -> None:
    """Carries out the program that the first argument names, if any, with those that follow. It
    exits itself."""
    if program := programs().get(name := "".join(sys.argv[1:2])):
        own_name = COMPLETION in sys.argv  # for which a shell completes
        sys.argv[:2] = [f"rods-{name}" if own_name else f"rods {name}"]
        named_function(program[0], where=f"rods {name}")()


def run(arguments: list[str], app: App | None = None) -> int:
    """Runs one verb and returns the exit code (rods.commands.run). Without arguments: the help."""
    app = app or application()
    arguments = arguments or ["--help"]
    early = arguments[:1] == ["up"]  # while it creates the run: nothing has been started
    stopped = "stopped; start the same command again" if early else "interrupted"
    return commands.run(app, arguments, stopped, requeue=early)
