"""`rods doctor`: checks the installation, the file system of a run, and the language models of a configuration."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from console.output import ConfigFile, print_json, print_lines
from rods.commands import LIBRARIES, Json, installing
from rods.errors import EXIT_FAILED, EXIT_OK, Finding, UserError

ROOMS = ("prompts", "rods", "worlds", "buffers", "daemon", "trainer", "evaluation", "console")
ENOUGH_FILES = 4096

RunFolder = Annotated[
    Path | None, Parameter(help="A folder whose file system is tried out, that of a run for instance.")
]
Writer = Annotated[
    tuple[str, str] | None,
    Parameter(
        negative=(),
        help="URL and MODEL: have this language model write variants, and print how many seeds gave one, beside known "
        "models. Data, pipeline and the endpoint's settings are those of --config; without it BFCL and the defaults.",
    ),
]
Seeds = Annotated[int, Parameter(help="How many seeds --synthesis takes.")]
Keep = Annotated[Path, Parameter(help="Where --synthesis keeps its run folder. The same command goes on after a stop.")]


def doctor(
    run: RunFolder = None,
    /,
    *,
    config: ConfigFile = None,
    synthesis: Writer = None,
    seeds: Seeds = 60,
    keep: Keep = Path("runs"),
    as_json: Json = False,
) -> int:
    """Check the installation, the file system of a run folder and, with a configuration, its model servers.

    Exits 1 when something needs mending. With --synthesis a language model writes variants, which takes a while: exits
    1 when the model is not fit to be asked, or none of its variants was accepted.
    """
    from buffers.run.filesystem import check_folder
    from console.endpoints import check_endpoints
    from rods.config import read_config

    if synthesis is not None:
        return _synthesis(*synthesis, seeds, keep, config, as_json)

    parts = {"installation": installation()}
    if run is not None:
        if not run.is_dir():
            raise UserError("is no folder", where=str(run), remedy="give a run folder, or the one that will hold it")
        parts[f"run folder {run}"] = check_folder(run)
    if config is not None:
        wanted = read_config(config)
        parts |= check_endpoints(wanted)
        if not wanted.operation.endpoints:
            writes, plays = wanted.pipeline.author == "llm", wanted.simulation.by_model and not wanted.operation.players
            needed = bool(writes or plays)
            does = "write" if writes else "play"
            text = f"none, and a language model is to {does}" if needed else "none: only a model that writes needs one"
            remedy = "name one (docs/endpoints.md)" if needed else ""
            parts["endpoints"] = [Finding("operation.endpoints", False if needed else None, text, remedy)]
    if as_json:
        print_json({part: [finding.as_json() for finding in findings] for part, findings in parts.items()})
    else:
        for part, findings in parts.items():
            print(part)
            print_lines(map(str, findings), indent="  ")
    sound = all(finding.ok is not False for findings in parts.values() for finding in findings)
    return EXIT_OK if sound else EXIT_FAILED


def _synthesis(url: str, model: str, seeds: int, keep: Path, file: Path | None, as_json: bool) -> int:
    """What comes of `seeds` seeds of which `model` at `url` writes."""
    import asyncio

    from console import synthesis
    from console.endpoints import check_endpoint
    from rods.config import Endpoint, base_address, read_config

    config = read_config(file) if file is not None else None
    try:
        asked = {"urls": (base_address(url),), "url_file": "", "model": model, "name": ""}
    except ValueError as error:
        raise UserError(str(error), where="--synthesis", remedy="give URL and MODEL") from None
    given = config.operation.endpoints if config else ()
    known = [*(one for one in given if one.model == model), *given][:1]
    endpoint = known[0].model_copy(update=asked) if known else Endpoint.model_validate(asked)
    findings = asyncio.run(check_endpoint(endpoint))
    if any(finding.ok is False for finding in findings):
        print_lines(map(str, findings))
        return EXIT_FAILED
    made = synthesis.trial_run(keep, endpoint, seeds, config, file.parent if file else Path())
    print(f"kept in {made.path}: the same command goes on after a stop", file=sys.stderr)
    asyncio.run(synthesis.synthesise(made, watch=synthesis.telling()))
    found = synthesis.SynthesisTrial(made).as_json()
    if as_json:
        print_json(found)
    else:
        print_lines(synthesis.yield_table({model: found, **synthesis.references()}))
    return EXIT_OK if found["accepted"] else EXIT_FAILED


def installation() -> list[Finding]:
    """Python, packages, training libraries, limits and sandbox of this machine."""
    root = Path(__file__).parents[2]
    foreign = [f"{name} ({place})" for name in ROOMS if (place := _place(name)) != root / name]
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        Finding("python", True, f"{platform.python_version()} on {os.cpu_count()} cores"),
        Finding("packages", False, f"not this project's: {', '.join(foreign)}", "use an environment of its own")
        if foreign
        else Finding("packages", True, f"{', '.join(ROOMS)} in {root}"),
        Finding("training", True, "PyTorch and TRL are installed")
        if all(map(importlib.util.find_spec, LIBRARIES))
        else Finding("training", None, "no PyTorch or TRL here: only simulated policies train", f"`{installing()}`"),
        Finding("open files", True, f"{files} allowed")
        if files >= ENOUGH_FILES or files == resource.RLIM_INFINITY
        else Finding("open files", None, f"{files} allowed: few for many calls in flight", f"ulimit -n {ENOUGH_FILES}"),
        _sandbox(),
    ]


def _sandbox() -> Finding:
    """The best tier of confinement here, what a better one lacks, and what this kernel leaves to a single lock
    (docs/sandbox.md)."""
    from rods.environments.sandbox.confined import offered
    from rods.environments.workers import seccomp
    from rods.environments.workers.confining import landlock_version, left_to_seccomp

    tier, missing = offered()
    text = f"tier {tier!r}" + "".join(f"; no {name}: {why}" for name, why in missing.items())
    if tier != "limits" and not seccomp.available():
        text += "; no seccomp for this processor: namespaces alone keep it from sockets and other processes"
    elif tier != "limits" and (single := left_to_seccomp()):
        text += f"; Landlock {landlock_version()} leaves to seccomp alone: {', '.join(single)}"
    remedy = "install bubblewrap, or ask for user namespaces" if missing else ""
    return Finding("sandbox", None if missing else True, text, remedy)


def _place(name: str) -> Path | None:
    """The folder that `import name` would read: another project may have installed a package of that name."""
    found = importlib.util.find_spec(name)
    return Path(found.origin).parent if found is not None and found.origin is not None else None
