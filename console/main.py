"""`rods`: the verbs. Each lives in a module of its own that is imported only when its verb is called, so that help and
`status` are quick and need no torch.

Exit codes are those of `rods.errors`: 0 done, 1 a check found something wrong, 2 bad input, 3 refused, 4 deadline,
5 stopped by a signal after a clean checkpoint. A person's mistake is one line on standard error, never a traceback.
"""

from __future__ import annotations

import sys

from cyclopts import App

from rods import commands
from rods.errors import EXIT_REQUEUE
from rods.signals import Interrupted, ignore, interrupt, on_signal

# verb: (module in console/verbs and function, what help says). The order is that of a run's life.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("new:init", "Make a folder with a world, tasks and a configuration to start from."),
    "new": ("new:new", "Create a run folder from a configuration."),
    "up": ("up:up", "Run trainer and daemon together until the run is finished, with live progress."),
    "status": ("status:status", "Say where a run stands, from its files alone."),
    "watch": ("watch:watch", "Follow a run in the terminal, with keys; in lines where there is none."),
    "ls": ("runs:ls", "List runs: their state, steps, rewards and pools."),
    "compare": ("runs:compare", "Put runs beside each other, with their held-out scores."),
    "ctl": ("ctl:ctl", "Pause picking, set concurrency or budgets, while the processes work."),
    "log": ("log:log", "Show what both processes have said; filter and follow."),
    "dash": ("dash:dash", "Show runs in a browser: a page that moves while they are written."),
    "inspect": ("inspect:inspect", "Show one task: conversation, truth, lineage, windows, history; or the interface."),
    "prompts": ("prompts:prompts", "Print every prompt that a seed would bring, before it is paid for."),
    "cost": ("cost:cost", "Show what variants cost in calls of language models, by stage."),
    "report": ("report:report", "Write the page over a run as one file, with what it shows in sentences."),
    "export": ("export:export", "Write what a run holds as tables for other tools, with a data card."),
    "score": ("score:score", "Score the run's policy on its held-out tasks."),
    "verify": ("verify:verify", "Re-derive every decision of a run from its logs and compare."),
    "recover": ("recover:recover", "Explain what a crash or a bad disk left behind, and put it right."),
    "fork": ("new:fork", "Start a new run from another one's originals and active variants."),
    "extend": ("new:extend", "Let a run go on longer: more steps, more epochs, a further stage."),
    "observe": ("foreign_trainer:observe", "Play the trainer: write groups of rollouts from standard input."),
    "merge": ("foreign_trainer:merge", "Play the trainer: merge staging into the pool and print the epoch's tasks."),
    "feedback list": ("feedback:list_cases", "List the failures that agents were asked about, and what was approved."),
    "feedback show": ("feedback:show", "Show everything on record about one of them."),
    "feedback drop": ("feedback:drop", "Take an approved text out of force."),
    "doctor": ("doctor:doctor", "Check the installation and the language models of a configuration."),
    "stub-endpoint": ("stub_endpoint:stub_endpoint", "Serve a stand-in for a language model, to try the LLM author."),
    "data check": ("data:check_tasks", "Check a file of tasks line by line."),
    "data rehash": ("data:rehash_tasks", "Renew tasks after their environment changed."),
    "data audit": ("data:audit_tasks", "List near duplicates and leaks between splits."),
    "data draw": ("data:draw", "Draw tasks over the tools of a repository."),
    "data select": ("data:select_tasks", "Choose the worlds that are trained on: how many, how like the held-out."),
    "data bfcl": ("data:fetch_bfcl", "Fetch BFCL's multi-turn tasks and convert them."),
    "data export": ("data:export_bfcl", "Write tasks in BFCL's own format."),
    "data import": ("data:import_bfcl", "Read tasks in BFCL's own format."),
    "env add": ("data:add_environment", "Describe a world from outside as an environment, its tools pinned."),
    "env admit": ("data:admit_environment", "Let variants of a run be in one more environment."),
    "env check": ("data:check_environment", "Probe an environment: determinism, snapshots, schemas, timing."),
    "env serve": ("serve:serve_environment", "Serve an environment to others, as an OpenEnv server."),
    "env generate": ("generate:generate_worlds", "Generate worlds and tasks in them, without a language model."),
    "env write": ("write:write_worlds", "Have language models write worlds and the tasks in them."),
    "replay bfcl": ("data:replay_bfcl", "Compare scoring with BFCL's own checker on every task and on mutations."),
}
GROUPS = {
    "feedback": "What agents wrote about failures.",
    "data": "Task files.",
    "env": "Environments.",
    "replay": "Replays against a reference.",
}


def application() -> App:
    """The command line with all verbs registered, none of them imported yet."""
    app = commands.application("rods", "Reward-driven online data synthesis for multi-turn tool-use RL.")
    groups = {name: App(name=name, help=text) for name, text in GROUPS.items()}
    for verb, (target, text) in VERBS.items():
        group, _, name = verb.rpartition(" ")
        (groups[group] if group else app).command(f"console.verbs.{target}", name=name, help=text)
    for group_app in groups.values():
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

    def interrupted(stopped: Interrupted) -> tuple[str, int]:
        if arguments[:1] == ["up"]:  # while it creates the run: nothing has been started
            return "stopped; start the same command again", EXIT_REQUEUE
        return "interrupted", 128 + stopped.number

    return commands.run(app or application(), arguments or ["--help"], interrupted)
