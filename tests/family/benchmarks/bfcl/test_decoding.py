"""Outputs are decoded as BFCL's own decoders do, thousands of malformed ones included, and nothing
is evaluated."""

from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

from bench.bfcl_parity.mutations import Mutations
from bench.fixtures.recorded_outputs import NATIVE, malformed
from rods.calls import Call
from rods.canonical import keyed_random
from rods.environments.base import Result
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.family.benchmarks.bfcl.decoding import decode, executed
from rods.family.benchmarks.bfcl.dialects import Prompted
from rods.family.benchmarks.bfcl.harness import harness
from rods.tasks import Task
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.official_scorer import TARGET

OWNERS = {"cd": "GorillaFileSystem", "ls": "GorillaFileSystem", "mean": "MathAPI"}
# The harness computes or calls here; we do neither. In the first three it calls what the policy has
# named.
NOT_EVALUATED = (
    "f(x=1 + __import__('os').getpid())",
    "f(x=len([1]) + 1)",
    "f(x=(lambda: 1)() + 1)",
    "f(x='ab' * 3)",
    "f(x='%s' % 3)",
    "f(x=[1] + [2])",
    "f(x=(1 if True else 2) + 1)",
)


@pytest.fixture(scope="module")
def theirs(bfcl: Bfcl) -> Any:
    """BFCL's decoder: (outputs, form) → call strings."""
    worker = Worker(WorkerSpec(TARGET, seconds=120.0, memory=1 << 33, reply_bytes=1 << 28))

    def ask(steps: list[Any], form: str) -> list[Any]:
        asked = {"wheel": str(bfcl.file), "form": form, "steps": steps}
        found: list[Any] = worker.call(asked)
        return found

    yield ask
    worker.close()


def outputs(tasks: list[Task]) -> list[list[Call]]:
    return [
        step for rollout in Mutations(tasks, 5).take(600) for turn in rollout.turns for step in turn
    ]


@pytest.mark.slow
def test_thousands_of_malformed_outputs_decode_as_officially(
    theirs: Any, tasks: list[Task]
) -> None:
    texts = [f"[{', '.join(map(str, step))}]" for step in outputs(tasks)]
    steps = [text for text in malformed(texts, 5_000) if text.isascii() or "\ud800" not in text]
    official = theirs(steps, "prompt")
    different = [
        (step, one)
        for step, one in zip(steps, official, strict=True)
        if decode(step, "prompt") != one
    ]
    assert not [
        pair for pair in different if "if True else" not in pair[0] and "(y :=" not in pair[0]
    ]
    assert len(different) < 5
    assert (
        sum(one is None for one in official) > 1_000 and sum(bool(one) for one in official) > 1_000
    )


def test_native_calls_decode_as_officially(theirs: Any, tasks: list[Task]) -> None:
    import json

    steps: list[Any] = [None, "", "ls()", [], {}, [1], ["ls"], [[{"ls": "{}"}]], 5, True]
    for number, step in enumerate(outputs(tasks)[:600]):
        rng = keyed_random(0, "native", number)
        said = [{call.name: json.dumps(dict(call.arguments))} for call in step]
        steps += [said, rng.choice(list(NATIVE.values()))(said, rng)]
    assert [decode(step, "native") for step in steps] == theirs(steps, "native")


def test_nothing_that_a_policy_writes_is_evaluated(theirs: Any, tmp_path: Path) -> None:
    assert all(theirs(list(NOT_EVALUATED), "prompt"))
    assert [decode(text, "prompt") for text in NOT_EVALUATED] == [None] * len(NOT_EVALUATED)
    marker = tmp_path / "made"
    decode(f"f(x=1 + open({str(marker)!r}, 'w').write('x'))", "prompt")
    executed(f"cd(folder=open({str(marker)!r}, 'w'))", OWNERS)
    assert not marker.exists()


@pytest.mark.parametrize(
    "part", ["-", "not ", "a.", "(", "[", "{", "f(x=", "a[", "lambda: ", "x if y else ", "1+", "**"]
)
def test_endless_nesting_decodes_to_nothing(part: str) -> None:
    assert decode(part * 100_000, "prompt") is None
    assert decode(part * 3_000 + "1", "prompt") is None


@pytest.mark.parametrize(
    ("string", "call"),
    [
        ("cd(folder='a')", Call("cd", {"folder": "a"})),
        ("cd (folder='a')", Call("cd", {"folder": "a"})),
        ("nothing(x=(1, 2))", Call("nothing", {"x": (1, 2)})),
        (
            "cd(folder='a ls() or (b)')",
            Call("cd", {"folder": "a GorillaFileSystem_instance.ls() or(b)"}),
        ),
        # no call of a plain name with literals: carried out by nobody
        ("cd(folder=ls(a=True))", Call("cd(folder=ls(a=True))")),
        ("cd(folder=inf)", Call("cd(folder=inf)")),
        ("shell.cd(folder='a')", Call("shell.cd(folder='a')")),
        ("MathAPI_instance.cd(folder='a')", Call("MathAPI_instance.cd(folder='a')")),
        ("cd(folder='a'),ls()", Call("cd(folder='a'),ls()")),
        ("cd(None='a')", Call("cd(None='a')")),
        ("()", Call("()")),
    ],
)
def test_call_strings_are_read_as_the_executor_would_run_them(string: str, call: Call) -> None:
    assert executed(string, OWNERS) == call


def test_results_stand_beside_the_decoded_strings(bfcl: Bfcl) -> None:
    """As they were decoded: the executor drops a blank inside of the first one's text, and what is
    shown keeps it."""
    strings = ["cd(folder='a (b)')", "ls()"]
    dialect = Prompted(harness(bfcl.file), OWNERS)
    calls = dialect.parse(f"[{', '.join(strings)}]").calls
    assert calls == (Call("cd", {"folder": "a(b)"}), Call("ls", {}))
    (message,) = dialect.observation(calls, [Result("x"), Result("y")])
    assert [one["name"] for one in literal_eval(message.content)] == strings
