"""What a new user may do wrong, and what is said then: `python -m tests.first_day BIN`, with the
programs in BIN, which is where the wheel was installed. Ends with 1 at the first thing that is not
as promised."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SMALL = """
sync = "free"
[policy]
kind = "simulated"
[data]
tasks = "desk-small"
train = 24
held_out = 8
[training]
batch_tasks = 8
steps = 20
"""
OWN = SMALL.replace('"simulated"', '"external"\nmodel = "lab/policy-7b"').replace(
    "steps = 20", "steps = 2"
)
LOOP = """
from rods import open_training

def policy(messages):
    assert messages[-1]["content"] == messages[-1].content and dict(messages[0])["role"] == "system"
    return "I cannot do that."

with open_training("runs/own", policy, config="own.toml") as training:
    for batch in training:
        training.record(batch, training.play(batch))
"""
SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("greeter", log_level="CRITICAL")

@server.tool()
def greet(name: str) -> str:
    \"\"\"Greets somebody by name.\"\"\"
    return f"Hello, {name}"

server.run()
"""
CHECKS = 2  # of a server: a thread's traceback came in one of two
STARTS = 12  # that a signal meets, each a little later
PATIENCE = 600  # seconds for anything that is waited for


class Desk:
    """An empty folder and the programs to try in it."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder

    def says(self, code: int, *words: str, command: str) -> str:
        """Runs `command`, which has to end with `code`, without a traceback, and to say `words`."""
        with self.started(command) as process:
            text, _ = process.communicate(timeout=PATIENCE)
        expect(process.returncode == code, f"{command}: code {process.returncode}\n{text}")
        expect("Traceback" not in text, f"{command}: {text}")
        for word in words:
            expect(word in text, f"{command} does not say {word!r}:\n{text}")
        return text

    def started(self, command: str) -> subprocess.Popen[str]:
        program, *arguments = command.split()
        return subprocess.Popen(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(what)


def event(process: subprocess.Popen[str], name: str, step: int = 0) -> dict[str, Any]:
    """The next line of a process's log that is such an event, of `step` or a later one; not every
    step is told."""
    assert process.stdout is not None
    began = time.monotonic()
    for line in process.stdout:
        said: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if said.get("event") == name and said.get("step", 0) >= step:
            return said
        if time.monotonic() - began > PATIENCE:
            process.kill()
    raise SystemExit(f"the log ended before it said {name!r}")


def a_run_of_ones_own_is_ones_own(desk: Desk) -> None:
    desk.write("own.toml", OWN)
    desk.write("loop.py", LOOP)
    desk.says(0, command="python loop.py")
    desk.says(0, "external policy lab/policy-7b", command="rods status")
    desk.says(0, command="rods dash runs/own --export runs/own/report")
    page = next((desk.folder / "runs/own/report").glob("*.html")).read_text()
    expect(
        "lab/policy-7b" in page and "no evidence" not in page,
        "the report calls a policy of one's own fake",
    )
    desk.says(2, "-- --url ADDRESS --model NAME", command="rods trainer score runs/own")
    desk.says(2, "another program trains", command="rods up runs/own")


def a_wrong_key_gets_the_remedy(desk: Desk) -> None:
    desk.write("custom.toml", SMALL.replace('"simulated"', '"custom"'))
    desk.says(
        2, "policy.kind", "'external', not 'custom'", command="rods-train run --config custom.toml"
    )
    desk.write(
        "gone.toml", SMALL.replace('"simulated"', '"transformers"\nmodel = "models/Qwen3-4B"')
    )
    said = desk.says(2, "there is no model", command="rods-train run --config gone.toml")
    expect("download" not in said, f"a name on a hub is guessed: {said}")
    desk.write("told.toml", SMALL + '[operation]\nreport_to = ["wandb"]\n')
    desk.says(2, "operation.report_to", command="rods-train told --config told.toml")


def a_killed_trainer_says_what_it_repeats(desk: Desk) -> None:
    long = SMALL.replace("steps = 20", "steps = 100000\ncheckpoint_steps = 100000")
    desk.write("long.toml", long)
    with desk.started("rods-train long --config long.toml") as process:
        told = event(process, "step", step=16)
        process.kill()
    with desk.started("rods-train long") as process:
        begun = event(process, "start")
        process.kill()
    expect(
        begun["from_step"] == 0 and begun["repeats_steps"] >= told["step"],
        f"repeated steps are not told: {begun}",
    )


def lockstep_says_what_it_waits_for(desk: Desk) -> None:
    desk.write("lock.toml", SMALL.replace('"free"', '"lockstep"'))
    with desk.started("rods-train lock --config lock.toml") as process:
        waits = event(process, "waiting for the daemon")
        expect(waits["command"] == "rods-daemon lock", f"the remedy is not told: {waits}")
        desk.says(0, "waiting for the daemon", command="rods status lock")
        process.terminate()


def a_daemon_that_waits_says_why(desk: Desk) -> None:
    """The only trainer is gone and no task is at the boundary, or nothing has been trained yet."""
    desk.write("fresh.toml", SMALL)
    desk.says(0, command="rods trainer new fresh --config fresh.toml")
    with desk.started("rods-daemon fresh") as process:
        began = time.monotonic()
        while "daemon   idle" not in (said := desk.says(0, command="rods status fresh")):
            expect(time.monotonic() - began < PATIENCE, f"the daemon is not seen: {said}")
        expect("paused" not in said, f"nobody paused it: {said}")
        process.terminate()


def a_known_loss_is_no_problem_for_ever(desk: Desk) -> None:
    desk.write("whole.toml", SMALL)
    desk.says(0, command="rods up whole --config whole.toml --json")
    log = desk.folder / "whole" / "observations.jsonl"
    text = bytearray(log.read_bytes())
    del text[len(text) // 2]
    log.write_bytes(text)
    desk.says(1, command="rods verify whole")
    desk.says(0, command="rods recover whole --yes")
    desk.says(0, "lost", command="rods verify whole")


def a_signal_at_the_start_is_no_traceback(desk: Desk) -> None:
    desk.write("start.toml", SMALL)
    for number in range(STARTS):
        with desk.started(f"rods-train started{number} --config start.toml") as process:
            time.sleep(0.1 * (number + 1))  # wherever that is: imports, models, the run's folder
            process.send_signal(signal.SIGINT if number % 2 else signal.SIGTERM)
            said, _ = process.communicate(timeout=PATIENCE)
        expect("Traceback" not in said, f"a signal after {0.1 * (number + 1):.1f} s: {said}")


def a_server_without_state_is_checked(desk: Desk) -> None:
    """Its program and its file are meant from the user's folder; it starts in one of its own."""
    desk.write("server.py", SERVER)
    desk.write("here/python", f'#!/bin/sh\nexec {desk.programs / "python"} "$@"\n')
    (desk.folder / "here/python").chmod(0o755)
    desk.says(
        0, str(desk.folder / "here/python"), command="rods env add greeter -- here/python server.py"
    )
    for _ in range(CHECKS):
        desk.says(0, "greet", command="rods env check greeter.json")


def main(programs: Path) -> None:
    for tried in (
        a_run_of_ones_own_is_ones_own,
        a_wrong_key_gets_the_remedy,
        a_killed_trainer_says_what_it_repeats,
        lockstep_says_what_it_waits_for,
        a_daemon_that_waits_says_why,
        a_known_loss_is_no_problem_for_ever,
        a_signal_at_the_start_is_no_traceback,
        a_server_without_state_is_checked,
    ):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            tried(Desk(programs, Path(folder)))
            print(
                f"{tried.__name__.replace('_', ' ')}: {time.monotonic() - began:.1f} s", flush=True
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
