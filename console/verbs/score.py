"""`rods score`: held-out scores of a run's policy."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from console import api
from console.output import RunFolder, estimated, print_json, print_lines
from rods.commands import Json

AtStep = Annotated[
    int | None, Parameter(help="Score the checkpoint of this step only. Default: start and end, paired.")
]


def score(run: RunFolder, /, *, step: AtStep = None, as_json: Json = False) -> None:
    """Score the run's policy on its held-out tasks, at the start and at the end, paired over the same tasks.

    Scores are kept in eval/; a checkpoint is scored once. Hints and augmented feedback are never shown here.
    """
    if step is not None:
        scored = api.score(run, step)
        if as_json:
            print_json(scored)
        else:
            from evaluation import card

            progress, binary = estimated(scored["progress"]), estimated(scored["binary"])
            print(f"step {scored['step']}: progress {progress}, all turns {binary}{_lost(scored['broken'])}")
            print_lines(card.lines(scored["card"], scored["progress"]["tasks"]))
        return
    compared = api.score(run)
    if as_json:
        print_json(compared)
        return
    from console.report.findings import heldout_sentence
    from evaluation import card

    print(heldout_sentence(compared))
    before, after = (compared[end]["progress_by_type"] for end in ("start", "end"))
    for name in sorted(before.keys() | after.keys()):
        print(f"  {name:13} {_of_type(before, name)} → {_of_type(after, name)}")
    print_lines(card.lines(compared["end"]["card"], compared["difference"]["progress"]["tasks"]))
    if compared["cards_differ"]:
        fields = ", ".join(compared["cards_differ"])
        print(f"  NOT ALIKE: start and end differ in {fields}; remove both from eval/ and score again")


def _lost(broken: int) -> str:
    return f"; {broken} rollouts broke and do not count, the same command plays them again" if broken else ""


def _of_type(by_type: dict[str, Any], name: str) -> str:
    """The score of a type; infrastructure failures may leave it without one at one end."""
    return estimated(by_type[name]) if name in by_type else "not scored"
