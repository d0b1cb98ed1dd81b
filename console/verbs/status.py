"""`rods status`: where a run stands, from its files alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from buffers.run.heartbeat import local_time
from console.output import RunFolder, print_json
from rods.commands import Json
from rods.errors import plain
from rods.observations import shares

FEW = 3  # environments that are named on a line


def status(run: RunFolder, /, *, as_json: Json = False) -> None:
    """Say where a run stands: progress, zones, pool, staging, and which processes live. Reads files only."""
    from console.progress import Progress

    progress = Progress(run)
    now = progress.poll()
    processes = {name: progress.process(name) for name in ("trainer", "daemon")}
    notes = progress.notes()
    asked = progress.asked.words()
    environments = progress.run.environment_records()
    if as_json:
        values = now.as_json()
        del values["seconds_per_step"], values["finished"]
        known = {"environments": environments, "processes": processes, "asked": asked, "notes": notes}
        print_json({"run": str(run), **values, **known})
        return
    print(f"{run}: step {now.step} of {now.steps}, epoch {now.epoch}, stage {now.stage}, start {now.attempt}")
    for name, facts in processes.items():
        print(f"  {name:8} {plain(_process(facts))}")
        for line in _models(facts) if facts["alive"] else ():
            print(f"  {'':8} {plain(line)}")
    print(f"  worlds   {plain(_worlds(environments))}")
    if now.reward is not None:
        print(f"  reward   {now.reward:.3f} in the last step, {now.recent:.3f} over the last ten")
        print("  zones    " + ", ".join(f"{count} {zone.replace('_', ' ')}" for zone, count in now.zones.items()))
    if now.difficulty is not None:
        print(f"  drawn    {_difficulty(**now.difficulty)}")
    if now.labels:
        print(f"  turns    {shares(now.labels)}; of {sum(now.labels.values()):,} over the last ten steps")
    went = [] if now.calling is None else [f"{now.calling:.0%} of turns with a call, {now.replies:.2f} replies a turn"]
    if now.entropy is not None:
        went.append(f"entropy {now.entropy:.3f} nats a token")
    if now.gradient_norm is not None:
        went.append(f"gradient norm {now.gradient_norm:.3f}")
    if went:
        print(f"  replies  {'; '.join(went)}; over the last ten steps")
    if now.interface is not None:
        why = f"; {now.interface.reason}" if now.interface.reason else ""
        print(f"  shown    {now.interface.version} since step {now.interface.step}{why}")
    print(f"  pool     {now.originals} originals + {now.generated} variants active; {now.staged} staged")
    print(f"  variants {now.injected} injected, {now.refused} refused, {now.retired} retired, {now.revived} revived")
    outcomes = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(now.outcomes.items()))
    print(f"  seeds    {now.picked} picked up to step {now.considered}" + (f"; {outcomes}" if outcomes else ""))
    if now.discards:
        print(plain("  why      " + ", ".join(f"{count} {why}" for why, count in sorted(now.discards.items()))))
    if asked:
        print(plain(f"  asked    {', '.join(asked)} (rods ctl)"))
    for note in notes:
        print(f"  note     {plain(note)}")


def _difficulty(next: int, last: dict[str, Any] | None = None) -> str:
    """The line about drawn tasks: what the last step had, with the levels that its difficulty allowed, and what is
    next."""
    if last is None:
        return f"none yet; the first at difficulty {next}"
    earned = "no reward that counts" if last["mean"] is None else f"mean reward {last['mean']:+.3f}"
    levels = ", ".join(f"{name} {level}" for name, level in last["levels"].items())
    return f"{last['tasks']} in step {last['step']}, difficulty {last['difficulty']} ({levels}): {earned}; next {next}"


def _worlds(environments: list[dict[str, Any]]) -> str:
    """The line about environments: how many of which kind, by name where they are few."""
    admitted = sum("by" in one for one in environments)
    if len(environments) <= FEW:
        told = ", ".join(f"{one['name']} ({one['parameters'].get('kind', 'kind unknown')})" for one in environments)
    else:
        kinds = Counter(one["parameters"].get("kind", "of unknown kind") for one in environments)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return told + (f"; {admitted} of them admitted since the start" if admitted else "")


def _process(facts: dict[str, Any]) -> str:
    """The line about trainer or daemon: whether it lives, where, since when."""
    life, state = facts["life"], f", {facts['state']}" if facts["state"] else ""
    if life == "never started":
        return "never started here"
    if life == "no heartbeat":
        return "not here; it has written its log, but left no heartbeat"
    job = f", job {facts['job']}" if facts["job"] else ""
    where = f"pid {facts['pid']} on {facts['host']}{job}"
    if facts["alive"]:
        since = local_time(facts["since"])
        stuck = f"; no progress for {facts['still']:.0f} s" if life == "stuck" else ""
        return f"{life} ({where}, since {since}{state}{stuck})"
    at = local_time(facts["last_heartbeat"])
    if life == "stopped":
        return f"stopped (last sign of life {at})"
    return f"dead: it ended without a word ({where}; last sign of life {at}{state}) → start the same command again"


def _models(facts: dict[str, Any]) -> Iterator[str]:
    """Endpoints and budget of a process that asks language models."""
    for one in facts.get("endpoints", ()):
        calls = f"{one['in_flight']} calls in flight (of at most {one['limit']}), {one['waiting']} waiting"
        down = f", down for {one['down_seconds']:.0f} s: {one['why']}" if one["why"] else ""
        yield f"endpoint {one['endpoint']}: {calls}{down}"
    budget = facts.get("budget", {})
    for kind in ("tokens", "requests"):
        if budget.get(kind) is not None:
            yield f"budget: {budget[f'used_{kind}']:,} of {budget[kind]:,} {kind} used"
