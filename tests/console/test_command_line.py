"""The command line is frozen: a new verb or option needs a decision, and this test says so."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rods
from rods.console.main import application, programs, run, verbs
from rods.family.page.dash import unpacked
from tests.parts import GONE

# verb: its positional arguments, then its options.
EXPECTED = {
    "init": (["FOLDER"], []),
    "plan": (
        ["CONFIG"],
        [
            *("--nodes", "--gpus", "--accelerate", "--config-json", "--rates", "--gpu"),
            *("--gpu-memory", "--price", "--json"),
        ],
    ),
    "twin": (
        ["RUN"],
        ["--static", "--random", "--refill", "--seeds", "--config", "--only-make", "--json"],
    ),
    "compare": (["RUNS"], ["--json"]),
    "up": (["RUN"], ["--config", "--steps", "--json"]),
    "status": (["RUNS"], ["--follow", "--json"]),
    "inspect": (["RUN", "TASK"], ["--cost", "--json"]),
    "dash": (["RUNS"], ["--host", "--port", "--export", "--example", "--json"]),
    "verify": (["RUN"], ["--replay", "--json"]),
    "recover": (["RUN"], ["--yes", "--json"]),
    "trainer new": (["RUN"], ["--config", "--json"]),
    "trainer fork": (["RUN", "NEW"], ["--config", "--weights", "--json"]),
    "trainer extend": (["RUN"], ["--config", "--steps", "--json"]),
    "trainer observe": (["RUN"], ["--from-step", "--json"]),
    "trainer merge": (["RUN"], ["--epoch", "--stage", "--json"]),
    "trainer score": (["RUN", "POLICY"], ["--step", "--json"]),
    "trainer schedule": (["FOLDER"], ["--replay", "--json"]),
    "env feedback list": (["RUN"], ["--json"]),
    "env feedback drop": (["RUN", "FAILURE"], ["--why", "--json"]),
    "doctor": ([], ["--config", "--synthesis", "--seeds", "--keep", "--rate", "--json"]),
    "data check": (["FILE"], ["--against", "--findings", "--trust", "--json"]),
    "admit": (
        ["WORLD", "TASKS", "OPTIONS"],
        [
            "--into",
            "--whose",
            "--config",
            "--against",
            "--out",
            "--accepted",
            "--strict",
            "--unchecked",
            "--trust",
            "--harbor",
            "--json",
        ],
    ),
    "triage": (
        ["SOURCE", "POLICY"],
        ["--out", "--samples", "--skill", "--task", "--trust", "--json"],
    ),
    "data rehash": (["FILE"], ["--out", "--trust", "--json"]),
    "data reword": (["FILE"], ["--config", "--out", "--trust", "--json"]),
    "data select": (
        ["FILE", "OUT"],
        ["--worlds", "--without", "--mode", "--alike", "--random-seed", "--json"],
    ),
    "data bfcl": ([], ["--out", "--json"]),
    "data tau2": ([], ["--json"]),
    "data acebench": (["FOLDER"], ["--json"]),
    "data export": (["RUN", "FOLDER"], ["--format", "--json"]),
    "data import chats": (
        ["FILE"],
        ["--world", "--out", "--rejects", "--state", "--anonymous", "--json"],
    ),
    "env add": (
        ["NAME", "COMMAND"],
        [
            *(
                "--kind",
                "--url",
                "--files",
                "--env",
                "--secret",
                "--reads",
                "--writes",
                "--fails",
                "--probe",
                "--compared",
                "--minted",
            ),
            *("--without", "--no-calls", "--replace", "--json"),
        ],
    ),
    "env check": (["NAME"], ["--tasks", "--seconds", "--json"]),
    "env generate": (
        ["FOLDER"],
        [
            *("--worlds", "--scenarios", "--held-out", "--held-out-topics", "--topics"),
            *("--mode", "--random-seed", "--lowest-tier", "--json"),
        ],
    ),
    "env write": (
        ["FOLDER"],
        [
            *(
                "--config",
                "--topics",
                "--from-tasks",
                "--worlds",
                "--scenarios",
                "--held-out",
                "--mode",
            ),
            *("--random-seed", "--lowest-tier", "--json"),
        ],
    ),
}
BROUGHT = {  # by parts that can be taken out
    "bfcl": ("data bfcl",),
    "tau2": ("data tau2",),
    "acebench": ("data acebench",),
    "feedback": ("env feedback list", "env feedback drop"),
    "environments": ("data select", "env generate", "env write"),
    "export": ("data export",),
    "conversations": ("data import chats",),
    "new_world": ("init",),
    "planning": ("plan",),
    "trials": ("doctor",),
    "twins": ("twin", "compare"),
    "triage": ("triage",),
    "schedule": ("trainer schedule",),
    "admit": ("admit",),
}
for part in GONE:
    for verb in BROUGHT.get(part, ()):
        del EXPECTED[verb]


def test_verbs_and_options_are_the_agreed_ones() -> None:
    found = {}
    for verb in EXPECTED:
        arguments = application()[verb.split()[0]]
        for part in verb.split()[1:]:
            arguments = arguments[part]
        names = [
            argument.names
            for argument in arguments.assemble_argument_collection(parse_docstring=False)
        ]
        options = [name for each in names for name in each if name.startswith("--")]
        # "*" stands for options that extensions bring
        found[verb] = (
            [each[0] for each in names if not each[0].startswith("--") and each != ("*",)],
            options,
        )
    assert found == EXPECTED


def test_no_verb_is_missing_from_the_agreed_list() -> None:
    assert {verb for verb, told in verbs().items() if told[0]} == {*EXPECTED, *programs()}


HEADINGS = {  # what a person is about to do → the verbs and nouns that help shows there
    "Start": ["init", "plan", "twin", "up"],
    "Look": ["compare", "dash", "inspect", "status"],
    "A world of your own": ["admit", "data", "env"],
    "A trainer of your own": ["trainer"],
    "Check and repair": ["doctor", "recover", "triage", "verify"],
}


def test_help_groups_sixteen_at_most_by_what_a_person_is_about_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 0
    shown: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        if heading := re.match(r"╭─ (.+?) ─", line):
            shown[heading[1]] = []
        elif row := re.match(r"│ ([a-z]+)  ", line):
            shown[list(shown)[-1]].append(row[1])
    assert shown.pop("Options") == []
    gone = {part for parts in (BROUGHT.get(part, ()) for part in GONE) for part in parts}
    assert shown == {
        heading: [verb for verb in there if verb not in gone] for heading, there in HEADINGS.items()
    }
    assert sum(map(len, shown.values())) <= 16


@pytest.mark.parametrize("verb", [verb for verb in verbs() if verb not in programs()])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb.split(), "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: rods {verb} ")


@pytest.mark.parametrize(
    ("word", "verb"), [("staus", "status"), ("evn", "env"), ("inpsect", "inspect")]
)
def test_an_unknown_verb_is_answered_with_what_may_be_meant(
    word: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([word, "runs/demo"]) == 2
    assert f'Did you mean "{verb}"?' in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["up", "trainer new"])
def test_who_asks_for_a_dry_run_is_told_of_the_plan(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*verb.split(), "runs/x", "--config", "run.toml", "--dry-run"]) == 2
    assert "→ `rods plan CONFIG`" in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("program", programs())
def test_a_program_answers_alike_under_its_own_name_and_as_a_verb(program: str) -> None:
    environment = {**os.environ, "COLUMNS": "100"}
    module = f"rods.{programs()[program][0].partition('.__main__')[0].removeprefix('rods.')}"
    for arguments in (["--help"], ["runs/none", "--bogus", "1"]):
        alone, below = (
            subprocess.run(
                [sys.executable, "-m", *words, *arguments],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
            for words in ([module], ["rods.console", program])
        )
        assert below.returncode == alone.returncode == (0 if arguments == ["--help"] else 2), (
            below.stderr
        )
        for own, other in ((alone.stdout, below.stdout), (alone.stderr, below.stderr)):
            assert own.replace(f"rods-{program}", f"rods {program}") == other
    assert f"rods {program}" in below.stderr


EVALUATES = pytest.mark.needs("benchmarks")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "option"),
    [
        *(("rods status", "--json"), ("rods train", "--config"), ("rods daemon", "--config")),
        *(("rods-train", "--config"), ("rods-daemon", "--config")),
        *(
            pytest.param(words, "--tasks", marks=EVALUATES)
            for words in ("rods eval run", "rods-eval run")
        ),
    ],
)
def test_the_shell_completes_verbs_and_options(words: str, option: str, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    program, *_ = typed = [*words.split(), "--"]
    installing = [
        str(Path(sys.executable).parent / program),
        "--install-completion",
        "--shell",
        "bash",
    ]
    subprocess.run(installing, env=environment, check=True)
    script = next(path for path in tmp_path.rglob(program) if path.is_file())
    assert str(script) in (tmp_path / ".bashrc").read_text()
    asked = f"source {script}; COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; "
    asked += f"_{program.replace('-', '_')}; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert option in done.stdout.split(), done.stderr


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert capsys.readouterr().out.strip() == rods.__version__ == project["version"]


def test_help_and_status_import_nothing_heavy(tmp_path: Path) -> None:
    heavy = (
        "torch",
        "transformers",
        "uvicorn",
        "aiohttp",
        "numpy",
        "scipy",
        "structlog",
        "snowballstemmer",
        "mpmath",
    )
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


@pytest.mark.sweep
def test_packages_of_the_user_with_plain_names_disturb_nothing(tmp_path: Path) -> None:
    for name in (
        "prompts",
        "worlds",
        "buffers",
        "daemon",
        "trainer",
        "evaluation",
        "console",
        "family",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a stranger')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (tmp_path / "c.toml").write_text(
        '[policy]\nkind = "simulated"\n[training]\nsteps = 2\nbatch_tasks = 2\n'
    )
    for command in (
        ["rods", "up", "run", "--config", "c.toml"],
        ["rods", "verify", "run", "--replay"],
    ):
        program = Path(sys.executable).parent / command[0]
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr


PORTS = ("-1", "65536", "http")


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["up"], ["status", "a", "b"], ["status", "a", "--loud"]]
    + [
        ["trainer", "merge", "a", "--epoch", "soon"],
        ["up", "a", "--config", "c.toml", "--steps", "3"],
    ]
    + [["dash", "--port", port] for port in PORTS]
    + [["env", "generate", "w", "--worlds", "0"], ["env", "generate", "w", "--random-seed", "-1"]],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("rods: ") and " → " in error
    assert error.count("\n") == 1


def test_a_person_s_mistake_is_one_line_with_place_and_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["status", "/nowhere/run"]) == 2
    error = capsys.readouterr().err
    assert "/nowhere/run" in error
    assert "→ `rods up" in error
    assert error.count("\n") == 1


def test_json_is_one_object_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "check", "desk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
