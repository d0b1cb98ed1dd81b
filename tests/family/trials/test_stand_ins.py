"""`python -m rods.daemon.stand_ins`: a server that plays every role, whatever the environment
(of variants of one without a catalogue:
tests/daemon/authors/catalogue_free/test_own_environment.py)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from rods import prompts
from rods.console.main import run
from rods.daemon.stand_ins import author
from rods.daemon.stand_ins.model import StandIn, roles
from rods.family.trials.doctor import COLOUR, COUNT

COMMAND = [sys.executable, "-m", "rods.daemon.stand_ins"]


@contextmanager
def serving(*options: str) -> Iterator[tuple[list[str], subprocess.Popen[str]]]:
    """The lines with which the program begins, and its process."""
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield [process.stdout.readline() for _ in range(4)], process
        finally:
            process.kill()


@pytest.mark.slow
def test_what_it_prints_is_an_endpoint_that_the_doctor_finds_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "requests.jsonl"
    with serving("--url-file", str(tmp_path / "url"), "--requests", str(kept)) as begun:
        lines, process = begun
        assert lines[0].startswith("# NO MODEL") and "evidence for nothing" in lines[0]
        (endpoint,) = tomllib.loads("".join(lines))["operation"]["endpoints"]
        assert endpoint["urls"] == [(tmp_path / "url").read_text().strip()]
        config = tmp_path / "run.toml"
        config.write_text(
            f'[policy]\nkind = "simulated"\n[[operation.endpoints]]\nmodel = '
            f'"{endpoint["model"]}"\n'
            f'url_file = "{tmp_path / "url"}"\n'
        )
        assert run(["doctor", "--config", str(config), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)  # and nothing else
        assert all(finding["ok"] is not False for finding in found[f"endpoint {endpoint['model']}"])
        asked = [json.loads(line)["messages"] for line in kept.read_text().splitlines()]
        assert [messages[-1]["content"] for messages in asked[:2]] == [COUNT[0]["content"], COLOUR]
        with pytest.raises(HTTPError, match="400"):
            urllib.request.urlopen(f"{endpoint['urls'][0]}/chat/completions", b"[]")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with serving() as (lines, _):
        port = lines[3].rpartition(":")[2].partition("/")[0]
        refused = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, text=True, check=False
        )
    assert refused.returncode == 2 and f"port {port}" in refused.stderr and "→" in refused.stderr


@pytest.mark.needs("feedback", "simulation", "environments")
def test_every_template_that_asks_an_agent_has_a_role() -> None:
    from bench.fixtures.llm_stub import players, writers

    names = {path.stem for path in prompts.FOLDER.glob("*.txt")}
    asking = {
        name
        for name in names
        if {"system", "user", "constrained"} <= prompts.load(name).sections.keys()
    }
    assert asking == {*roles(), *players.ROLES, *writers.ROLES}


def test_a_world_gets_another_end_of_one_text_and_keeps_its_references() -> None:
    state = {
        "books": {
            "7": {
                "title": "Blue Lanterns",
                "borrower": "Ada",
                "on": ["2026-01-02"],
                "kept": "12 days",
            }
        },
        "members": [{"name": "Ada", "city": "Oslo", "tags": {"level": "gold"}}],
    }
    said = prompts.load("initial_state").render_sections(
        story="s", plan="p", state=json.dumps(state), allowed="", refused=""
    )
    question = {"role": "user", "content": f"{said['user']}\n\n{said['tagged']}"}
    request = {"messages": [{"role": "system", "content": said["system"]}, question]}
    answer = StandIn().answer(request)
    changed = json.loads(answer.partition("<state>")[2].partition("</state>")[0])
    title = changed["books"]["7"]["title"]
    assert changed == {"books": {"7": {"title": title}}}
    assert title.startswith("Blue Lanterns ")
    assert StandIn().answer(request) == answer


def test_a_state_without_texts_gets_another_number() -> None:
    state = {"calls": [{"name": "lend", "arguments": {"book": 7, "days": 3}}]}
    said = prompts.load("initial_state").render_sections(
        story="s", plan="p", state=json.dumps(state), allowed="", refused=""
    )
    question = {"role": "user", "content": f"{said['user']}\n\n{said['tagged']}"}
    answer = StandIn().answer(
        {"messages": [{"role": "system", "content": said["system"]}, question]}
    )
    (call,) = json.loads(answer.partition("<state>")[2].partition("</state>")[0])["calls"]
    assert call["name"] == "lend" and call["arguments"].keys() == {"book", "days"}
    assert (call["arguments"]["book"] != 7) + (call["arguments"]["days"] != 3) == 1


@pytest.mark.parametrize(
    ("document", "arguments", "said", "left_open"),
    [
        (
            "Closes a repair ticket, so that it rests",
            {"ticket": "T11"},
            "Close a repair ticket, with the ticket T11",
            "Close a repair ticket.",
        ),
        (
            "Rents a bike for some days",
            {"bike": 251, "days": 1},
            "Rent a bike for some days, with the bike 251 and with the days 1",
            "Rent a bike for some days, with the days 1.",
        ),
    ],
)
def test_values_are_said_behind_what_the_document_says_and_left_out_without_a_placeholder(
    document: str, arguments: dict[str, Any], said: str, left_open: str
) -> None:
    clause = author._imperative(document)
    for name, value in arguments.items():
        clause = author._saying(clause, name, value)
    assert clause == said
    assert author._left_open(f"{clause}.", str(next(iter(arguments.values())))) == left_open


def test_of_the_functions_of_a_plan_one_takes_what_another_s_name_speaks_of() -> None:
    tools = {
        "find_note": ["text"],
        "list_days": [],
        "move_note": ["note", "day"],
        "count_days": ["day"],
    }
    schemas = [
        json.dumps({"name": name, "arguments": {key: {} for key in each}})
        for name, each in tools.items()
    ]
    pattern = (
        'turn 1: [["list_days","find_note"],["count_days","move_note"]]\nWhat a call returns must '
        "be of use as an "
    )
    pattern += "argument later: place 2 of turn 1 from place 1 of turn 1."
    blank = dict.fromkeys(
        ("functions", "root", "failures", "blocked", "guidance", "refused", "composing"), "-"
    )
    for number in range(20):
        fields = {
            **blank,
            "pattern": pattern,
            "tools": f"tool_{number}",
            "schemas": "\n".join(schemas).replace(" ", ""),
        }
        said = prompts.load("planner").render_sections(**fields)
        question = {
            "role": "user",
            "content": "\n\n".join(said[part] for part in ("user", "schemas", "avoid", "tagged")),
        }
        answer = StandIn().answer(
            {"messages": [{"role": "system", "content": said["system"]}, question]}
        )
        assert '["find_note", "move_note"]' in answer and "<functions>" not in answer
