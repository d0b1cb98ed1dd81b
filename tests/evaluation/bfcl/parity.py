"""Our verdicts beside those of BFCL's own scorer, which runs in a process of its own on result files that we wrote."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluation.bfcl import official_scorer
from evaluation.bfcl.decoding import Form
from evaluation.bfcl.judging import Judge
from rods.environments.workers.worker import Worker
from rods.tasks import Task
from tests.evaluation.bfcl.recorded import Recorded, recorded_set
from worlds.bfcl import environment, wheel


@dataclass(slots=True)
class Compared:
    """`outputs` episodes, `valid` of them for the official scorer; `different` names those where we differ."""

    outputs: int = 0
    valid: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    different: list[tuple[str, str, str]] = field(default_factory=list)


def compare(tasks: Sequence[Task], count: int, random_seed: int = 0) -> Compared:
    """Judges `count` made episodes and all real ones, both ways."""
    found = Compared()
    judge = Judge(environment())
    rounds = _rounds(recorded_set(tasks, count, random_seed))
    scorer = Worker(official_scorer.TARGET, seconds=600.0, memory=1 << 33, reply_bytes=1 << 28)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, ((form, kind, _), entries) in enumerate(rounds.items()):
                file = Path(folder) / f"{number}_result.json"
                lines = [json.dumps({"id": name, "result": one.turns}) for name, one in entries.items()]
                file.write_text("\n".join(lines) + "\n")
                asked = {"form": form, "category": f"multi_turn_{kind}", "file": str(file)}
                official = scorer.call({"wheel": str(wheel.path()), **asked})
                for name, one in entries.items():
                    found.outputs += 1
                    found.valid += official[name]
                    found.kinds[one.kind] += 1
                    if judge.judge(one.task, one.turns, form).official != official[name]:
                        found.different.append((name, form, one.kind))
    finally:
        scorer.close()
    return found


def _rounds(outputs: Sequence[Recorded]) -> dict[tuple[Form, str, int], dict[str, Recorded]]:
    """Files of one form and category in which every task stands at most once."""
    rounds: dict[tuple[Form, str, int], dict[str, Recorded]] = defaultdict(dict)
    seen: Counter[tuple[Form, str]] = Counter()
    for one in outputs:
        name = one.task.provenance["id"]
        seen[one.form, name] += 1
        rounds[one.form, one.task.type, seen[one.form, name]][name] = one
    return rounds
