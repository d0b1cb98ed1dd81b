"""The command line is frozen: a new verb or option needs a decision, and this test says so."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rods
from rods.console.main import application, run, verbs
from rods.console.verbs.dash import unpacked
from tests.parts import GONE

# verb: its positional arguments, then its options.
EXPECTED = {
    "init": (["FOLDER"], []),
    "new": (["RUN"], ["--config", "--json"]),
    "up": (["RUN"], ["--config", "--json"]),
    "status": (["RUN"], ["--follow", "--json"]),
    "inspect": (["RUN", "TASK"], ["--interface", "--episodes", "--step", "--json", "--skills"]),
    "ls": (["RUNS"], ["--json"]),
    "log": (["RUN"], ["--level", "--process", "--text", "--follow", "--json"]),
    "dash": (["RUNS"], ["--host", "--port", "--export", "--example"]),
    "cost": (["RUN"], ["--json"]),
    "report": (["RUN"], ["--json"]),
    "export": (["RUN", "FOLDER"], ["--format", "--json"]),
    "score": (["RUN"], ["--step", "--json"]),
    "verify": (["RUN"], ["--replay", "--json"]),
    "recover": (["RUN"], ["--yes", "--json"]),
    "fork": (["RUN", "NEW"], ["--config", "--weights", "--json"]),
    "extend": (["RUN"], ["--config", "--steps", "--json"]),
    "observe": (["RUN"], ["--from-step", "--json"]),
    "merge": (["RUN"], ["--epoch", "--stage", "--json"]),
    "feedback list": (["RUN"], ["--json"]),
    "feedback show": (["RUN", "FAILURE"], ["--json"]),
    "feedback drop": (["RUN", "FAILURE"], ["--why", "--json"]),
    "doctor": (["RUN"], ["--config", "--synthesis", "--seeds", "--keep", "--json"]),
    "data check": (["FILE"], ["--variants", "--against", "--trust", "--json"]),
    "data rehash": (["FILE"], ["--out", "--trust", "--json"]),
    "data draw": (["OUT"], ["--train", "--held-out", "--difficulty", "--random-seed", "--repository", "--json"]),
    "data select": (["FILE", "OUT"], ["--worlds", "--without", "--mode", "--alike", "--random-seed", "--json"]),
    "data bfcl": ([], ["--out", "--json"]),
    "data export": (["FILE", "FOLDER"], ["--json"]),
    "data import": (["FOLDER", "OUT"], ["--json"]),
    "env add": (
        ["NAME", "COMMAND"],
        [
            *("--kind", "--url", "--files", "--env", "--secret", "--reads", "--probe", "--compared", "--minted"),
            *("--without", "--warm", "--replace", "--json"),
        ],
    ),
    "env admit": (["RUN", "NAME"], ["--why", "--json"]),
    "env check": (["NAME"], ["--tasks", "--json"]),
    "env serve": (["NAME"], ["--port", "--sessions"]),
    "env generate": (
        ["FOLDER"],
        [
            *("--worlds", "--scenarios", "--requests", "--held-out", "--held-out-topics", "--topics", "--small"),
            *("--mode", "--random-seed", "--lowest-tier", "--json"),
        ],
    ),
    "env write": (
        ["FOLDER"],
        [
            *("--config", "--topics", "--from-tasks", "--worlds", "--scenarios", "--held-out", "--mode"),
            *("--random-seed", "--lowest-tier", "--json"),
        ],
    ),
}
BROUGHT = {  # by parts that can be taken out
    "bfcl": ("data bfcl", "data export", "data import"),
    "openenv": ("env serve",),
    "feedback": ("feedback list", "feedback show", "feedback drop"),
    "environments": ("data select", "env generate", "env write"),
    "simulation": ("data draw",),
    "export": ("export",),
    "new_world": ("init",),
    "trials": ("doctor",),
}
for part in GONE:
    for verb in BROUGHT.get(part, ()):
        del EXPECTED[verb]
if "skills" in GONE:
    EXPECTED["inspect"][1].remove("--skills")


def test_verbs_and_options_are_the_agreed_ones() -> None:
    found = {}
    for verb in EXPECTED:
        arguments = application()[verb.split()[0]]
        for part in verb.split()[1:]:
            arguments = arguments[part]
        names = [argument.names for argument in arguments.assemble_argument_collection(parse_docstring=False)]
        options = [name for each in names for name in each if name.startswith("--")]
        # "*" stands for options that extensions bring
        found[verb] = ([each[0] for each in names if not each[0].startswith("--") and each != ("*",)], options)
    assert found == EXPECTED


def test_no_verb_is_missing_from_the_agreed_list() -> None:
    assert set(verbs()) == set(EXPECTED)


def test_the_shell_completes_verbs_and_options(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    program = Path(sys.executable).parent / "rods"
    subprocess.run([program, "--install-completion", "--shell", "bash"], env=environment, check=True)
    script = next(path for path in tmp_path.rglob("rods") if path.is_file())
    assert str(script) in (tmp_path / ".bashrc").read_text()
    asked = f"source {script}; COMP_WORDS=(rods status --); COMP_CWORD=2; _rods; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert "--json" in done.stdout.split()


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert capsys.readouterr().out.strip() == rods.__version__ == project["version"]


def test_help_and_status_import_nothing_heavy(tmp_path: Path) -> None:
    heavy = ("torch", "transformers", "uvicorn", "aiohttp", "numpy", "scipy", "structlog", "snowballstemmer", "mpmath")
    code = (
        "import sys, rods.console.main as m\n"
        f"assert m.run(['status', {str(unpacked(tmp_path))!r}]) == 0\n"
        "assert m.run(['--help']) == 0\n"
        f"found = [name for name in {heavy} if name in sys.modules]\n"
        "import importlib.util as u\n"
        "if u.find_spec('rods.family.benchmarks'): import rods.family.benchmarks.main\n"
        "print(found + [name for name in ('torch', 'aiohttp', 'mpmath') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_packages_of_the_user_with_plain_names_disturb_nothing(tmp_path: Path) -> None:
    for name in ("prompts", "worlds", "buffers", "daemon", "trainer", "evaluation", "console", "family"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a stranger')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "c.toml").write_text('[policy]\nkind = "simulated"\n[training]\nsteps = 2\nbatch_tasks = 2\n')
    for command in (["rods", "up", "run", "--config", "c.toml"], ["rods", "verify", "run", "--replay"]):
        program = Path(sys.executable).parent / command[0]
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr


PORTS = ("-1", "65536", "http")


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["status"], ["status", "a", "b"], ["status", "a", "--loud"], ["merge", "a", "--epoch", "soon"]]
    + [[*verb, "--port", port] for verb in (["dash"], ["env", "serve", "desk"]) for port in PORTS]
    + [["env", "generate", "w", "--worlds", "0"], ["env", "generate", "w", "--random-seed", "-1"]],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("rods: ") and " → " in error
    assert error.count("\n") == 1


def test_a_person_s_mistake_is_one_line_with_place_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "/nowhere/run"]) == 2
    error = capsys.readouterr().err
    assert "/nowhere/run" in error
    assert "→ `rods new" in error
    assert error.count("\n") == 1


def test_json_is_one_object_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "check", "desk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
