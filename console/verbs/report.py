"""`rods report`, `rods score` and `rods cost`: what a run came to."""

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

from rods.buffers.run.run import Run
from rods.buffers.usage import Costs, costs
from rods.commands import Json
from rods.console.output import RunFolder, estimated, print_result
from rods.evaluation import card

AtStep = Annotated[
    int | None, Parameter(help="Score the checkpoint of this step only. Default: start and end, paired.")
]


def report(run: RunFolder, /, *, as_json: Json = False) -> None:
    """Write the page over a run (`rods dash`) as one file into its folder report/, and say what the run shows.

    Reads files only and may be asked of a living run. Held-out scores appear once `rods score` has made them.
    """
    from rods.console.dash.page_file import export_report

    page, said = export_report(run)
    findings = (f"  {line}" for line in said["findings"])
    print_result(as_json, {"report": str(page), **said["numbers"]}, str(page), findings)


def score(run: RunFolder, /, *, step: AtStep = None, as_json: Json = False) -> None:
    """Score the run's policy on its held-out tasks, at the start and at the end, paired over the same tasks.

    Scores are kept in eval/; a checkpoint is scored once. Hints and augmented feedback are never shown here.
    """
    from rods.console import api

    scores = api.score(run, step)
    print_result(as_json, scores, _compared(scores) if step is None else _scored(scores))


def _scored(scores: dict[str, Any]) -> Iterator[str]:
    progress, binary, broken = estimated(scores["progress"]), estimated(scores["binary"]), scores["broken"]
    lost = f"; {broken} rollouts broke and do not count, the same command plays them again" if broken else ""
    yield f"step {scores['step']}: progress {progress}, all turns {binary}{lost}"
    yield from card.lines(scores["card"], scores["progress"]["tasks"])


def _compared(scores: dict[str, Any]) -> Iterator[str]:
    from rods.console.report.findings import heldout_sentence

    yield heldout_sentence(scores)
    by_type = [scores[end]["progress_by_type"] for end in ("start", "end")]
    for name in sorted({name for types in by_type for name in types}):
        # Infrastructure failures may leave a type without a score at one end.
        start, end = (estimated(types[name]) if name in types else "not scored" for types in by_type)
        yield f"  {name:13} {start} → {end}"
    yield from card.lines(scores["end"]["card"], scores["difference"]["progress"]["tasks"])
    if scores["cards_differ"]:
        fields = ", ".join(scores["cards_differ"])
        yield f"  NOT ALIKE: start and end differ in {fields}; remove both from eval/ and score again"


def cost(run: RunFolder, /, *, as_json: Json = False) -> None:
    """Show calls, tokens and time per accepted variant by stage, with what failed and without."""
    Run.open(run)
    spent = costs(run)
    print_result(as_json, spent.as_json(), cost_lines(spent))


def cost_lines(costs: Costs) -> Iterator[str]:
    """The tables for people."""
    if costs.played:
        yield f"{'models that play':26} {'calls':>8} {'failed':>8} {'tokens in':>11} {'out':>9} {'seconds':>9}"
        for role, spent in sorted(costs.played.items(), key=lambda item: -item[1].calls):
            tokens = f"{spent.tokens_in:11} {spent.tokens_out:9}"
            yield f"{role:26} {spent.calls:8} {spent.failed:8} {tokens} {spent.seconds:9.1f}"
        yield ""
    if not costs.stages:
        yield "no language model has written for this run"
        return
    yield f"{costs.accepted} variants accepted of {costs.variants} that calls were made for"
    yield ""
    yield f"{'':26}    for each accepted variant, failures included   |  on its own path"
    yield f"{'stage':26} {'calls':>8} {'tokens in':>11} {'out':>8} {'seconds':>9}     | {'calls':>7} {'tokens in':>11}"
    every = "{:26} {calls:8.2f} {tokens_in:11.0f} {tokens_out:8.0f} {seconds:9.2f}     |"
    for stage, spent in sorted(costs.stages.items(), key=lambda item: -item[1].calls):
        path = costs.path.get(stage)
        own = "" if path is None else " {calls:7.2f} {tokens_in:11.0f}".format_map(path.per(costs.accepted))
        yield every.format(stage, **spent.per(costs.accepted or 1)) + own
    summary = costs.as_json()
    yield ""
    yield (
        f"{summary['calls_per_accepted']} calls for an accepted variant, {summary['calls_on_the_path']} on its own "
        f"path; endpoints were busy for {summary['busy_seconds_per_accepted']} s of it (times their GPUs)"
        if costs.accepted
        else "no variant is accepted yet: the figures are totals"
    )
    for name, endpoint in summary["endpoints"].items():
        yield f"endpoint {name}: {endpoint['calls']} calls, busy for {endpoint['busy_seconds']:.0f} s"
