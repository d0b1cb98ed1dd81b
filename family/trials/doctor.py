"""`rods doctor`: checks the installation and the language models of a configuration.

An endpoint is asked whether it is fit for work: address, key, model, room for prompts, constrained
answers, speed; a rollout server whether it gives token ids with log-probabilities and takes
weights. Every question is a `Finding`; the first that fails usually explains the rest, so what
depends on it is not asked.
"""

import asyncio
import importlib.util
import os
import platform
import random
import resource
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import aiohttp
import orjson
import tomli_w
from cyclopts import Parameter
from cyclopts.types import PositiveInt

import rods
from rods import logs, model_json
from rods.analysis.schemas import fits
from rods.asking import UNREAD, AnswerForm, Unreadable, answer_of, one_of
from rods.commands import LIBRARIES, Json, installing
from rods.config import Config, Endpoint, Operation, base_address, read_config
from rods.console.output import ConfigFile, print_lines, print_result
from rods.environments import registry
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK, Finding, InfrastructureError, UserError, say
from rods.functions import named_function
from rods.llm.client import Client
from rods.llm.connections import Key, read_key, read_reply, reason
from rods.llm.records import Completion, Request
from rods.players import Players
from rods.worlds.sources import beside, load_tasks

ENOUGH_FILES = 4096
# seconds for an answer where the configuration names none; a server that has just started takes
# long over the first one
LONGEST = 120.0
# tokens; below, prompts need compact signatures: BFCL's are 21,000 characters long
ENOUGH_CONTEXT = 16_384
UNREACHED = (aiohttp.ClientError, OSError)
# for which calls are sent, of each kind; what is not answered after twice as long is not counted
RATED = 5.0
# a prompt; tokens
LONG = "one two three four five six seven eight nine ten " * 100
ANSWER = 256
ENDLESS = "Count upwards from here in words, and never stop."
COUNT = [{"role": "user", "content": "Count from one to ten."}]
COLOUR = (
    'Choose a colour and a count. Answer with one JSON object: "reason", a word or two; "colour", '
    '"red" or "green"; "count", a number from 1 to 9.'
)
FORM = AnswerForm(
    {"colour": one_of("red", "green"), "count": {"type": "integer", "minimum": 1, "maximum": 9}}
)
SCHEMA = FORM.schema(40)

Writer = Annotated[
    tuple[str, str] | None,
    Parameter(
        negative=(),
        help="URL and MODEL: have this language model write variants, and print how many seeds "
        "gave one. Data, pipeline and the endpoint's settings are those of --config; without it "
        "BFCL and the defaults.",
    ),
]
Rated = Annotated[
    tuple[str, str, PositiveInt] | None,
    Parameter(
        negative=(),
        help="URL, MODEL, CALLS: tokens that it reads and writes a second, so many in flight.",
    ),
]
Seeds = Annotated[int, Parameter(help="How many seeds --synthesis takes.")]
Keep = Annotated[
    Path,
    Parameter(
        help="Where --synthesis keeps its run folder. The same command goes on after a stop."
    ),
]


def doctor(
    *,
    config: ConfigFile = None,
    synthesis: Writer = None,
    seeds: Seeds = 60,
    keep: Keep = Path("runs"),
    rate: Rated = None,
    as_json: Json = False,
) -> int:
    """Check the installation and, with a configuration, its model servers.

    Exits 1 when something needs mending. With --synthesis a language model writes variants, which
    takes a while: exits 1 when the model is not fit to be asked, or none of its variants was
    accepted.
    """
    if rate is not None:
        endpoint = _endpoint(*rate[:2], "--rate", config)
        rates = asyncio.run(_measured(endpoint, rate[2]))
        print_result(as_json, rates, tomli_w.dumps(rates).splitlines())
        return EXIT_OK
    if synthesis is not None:
        return _synthesis(
            _endpoint(*synthesis, "--synthesis", config), seeds, keep, config, as_json
        )

    parts = {"installation": installation()}
    if config is not None:
        wanted = read_config(config)
        parts |= check_endpoints(wanted)
        if wanted.policy.kind == "transformers":
            parts["chat format"] = _chat_format(wanted, config.parent)
        if not wanted.operation.endpoints:
            missing = wanted.pipeline.author == "llm"
            text = "none, and a model is to write" if missing else "none, and none has to write"
            parts["endpoints"] = [
                Finding(
                    "operation.endpoints",
                    False if missing else None,
                    text,
                    "name one (docs/endpoints.md)",
                )
            ]
    facts = {part: [finding.as_json() for finding in findings] for part, findings in parts.items()}
    lines = (
        line
        for part, findings in parts.items()
        for line in (part, *(f"  {finding}" for finding in findings))
    )
    print_result(as_json, facts, lines)
    sound = all(finding.ok is not False for findings in parts.values() for finding in findings)
    return EXIT_OK if sound else EXIT_FAILED


def _endpoint(url: str, model: str, option: str, file: Path | None) -> Endpoint:
    """`model` at `url` as an endpoint, with the settings of the configuration in `file`."""
    try:
        asked = {"urls": (base_address(url),), "url_file": "", "model": model, "name": ""}
    except ValueError as error:
        raise UserError(str(error), where=option, remedy="give URL and MODEL") from None
    operation = read_config(file).operation if file is not None else Operation()
    endpoints = (*operation.endpoints, *(operation.rollout_servers if option == "--rate" else ()))
    nearest = [*(same for same in endpoints if same.model == model), *endpoints][:1]
    return nearest[0].model_copy(update=asked) if nearest else Endpoint.model_validate(asked)


async def _measured(endpoint: Endpoint, calls: int) -> dict[str, float]:
    """What a file of rates says of the server, with so many calls in flight. Raises EndpointError
    for one that fails, InfrastructureError where none is answered in time."""
    logs.configure("rods", "error")
    hurried = {"concurrency": calls, "retry_seconds": 0.0, "patience_seconds": 0.1}
    async with Client([endpoint.model_copy(update=hurried)]) as client:
        prompt = await _tokens_per_second(client, LONG, 1, lambda answer: answer.tokens_in)
        generated = await _tokens_per_second(
            client, ENDLESS, ANSWER, lambda answer: answer.tokens_out
        )
    rates = {"prompt_tokens_per_second": prompt, "generated_tokens_per_second": generated}
    return {
        f"{endpoint.model}.{name}": value
        for name, value in {"gpus": 1, "concurrency": calls, **rates}.items()
    }


async def _tokens_per_second(
    client: Client, text: str, most: int, count: Callable[[Completion], int]
) -> float:
    """Tokens a second until the last answer. No prompt begins as another does, so that nothing
    comes from a cache."""
    began = last = time.monotonic()
    tokens = 0

    async def call() -> None:
        nonlocal tokens, last
        while time.monotonic() - began < RATED:
            message = {"role": "user", "content": f"{random.getrandbits(64)} {text}"}
            answer = await client.complete(
                Request("rate", [message], max_tokens=most, temperature=1.0)
            )
            tokens = tokens + count(answer)
            last = time.monotonic()

    with suppress(TimeoutError):
        async with asyncio.timeout(2 * RATED), asyncio.TaskGroup() as calls:
            for _ in range(client.settings[0].concurrency):
                calls.create_task(call())
    if not tokens:
        what = f"{client.settings[0].model}: no answer within {2 * RATED:g} s"
        raise InfrastructureError(
            f"{what} → serve it with room for prompts of 2,000 tokens, or fewer calls in flight"
        )
    return round(tokens / (last - began), 1)


def _synthesis(endpoint: Endpoint, seeds: int, keep: Path, file: Path | None, as_json: bool) -> int:
    """What comes of `seeds` seeds of which the model at `endpoint` writes."""
    from rods.family.trials import synthesis  # the daemon

    config = read_config(file) if file is not None else None
    findings = asyncio.run(check_endpoint(endpoint))
    if any(finding.ok is False for finding in findings):
        print_lines(map(str, findings))
        return EXIT_FAILED
    run = synthesis.trial_run(keep, endpoint, seeds, config, file.parent if file else Path())
    say(f"kept in {run.path}: the same command goes on after a stop", aside=True)
    asyncio.run(synthesis.synthesise(run, watch=synthesis.telling()))
    figures = synthesis.SynthesisTrial(run).as_json()
    print_result(as_json, figures, synthesis.lines(figures))
    return EXIT_OK if figures["accepted"] else EXIT_FAILED


def installation() -> list[Finding]:
    """Python, packages, training libraries and limits of this machine, and what folders of
    rods/worlds find here."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        Finding("python", True, f"{platform.python_version()} on {os.cpu_count()} cores"),
        Finding("package", True, f"rods {rods.__version__} in {Path(rods.__file__).parent}"),
        Finding("training", True, "PyTorch and TRL are installed")
        if all(map(importlib.util.find_spec, LIBRARIES))
        else Finding(
            "training",
            None,
            "no PyTorch or TRL here: only simulated policies train",
            f"`{installing()}`",
        ),
        Finding("open files", True, f"{files} allowed")
        if files >= ENOUGH_FILES or files == resource.RLIM_INFINITY
        else Finding(
            "open files",
            None,
            f"{files} allowed: few for many calls in flight",
            f"ulimit -n {ENOUGH_FILES}",
        ),
        *(named_function(asked, where=name)() for name, asked in registry.having("doctor").items()),
    ]


def _chat_format(config: Config, base: Path) -> list[Finding]:
    """What the policy's chat template makes of a conversation with the first task's tools."""
    try:
        from rods.trainer import fit  # late: it imports torch

        tasks = load_tasks(config.data, base, train_needed=config.pool_slots > 0)
        worlds = Environments(config.operation.sandbox, beside(config.data, base))
        return fit.of_policy(config, Players(worlds, config), tasks)[0] if tasks else []
    except ImportError:
        return [Finding("chat template", None, "not looked at: no PyTorch here", installing())]
    except UserError as error:
        return [Finding("chat template", False, f"{error.where}: {error.what}", error.remedy)]


async def check_endpoint(endpoint: Endpoint, rolls_out: Config | None = None) -> list[Finding]:
    """Findings about one endpoint, in the order of the questions; with `rolls_out` about the
    rollout server of that configuration. Sends three short requests. Raises nothing."""
    findings: list[Finding] = []
    try:
        await read_key(endpoint)
        # Impatient: a person is waiting. Everything else is as in a run.
        limits = {
            "retry_seconds": 0.0,
            "patience_seconds": 0.1,
            "read_seconds": endpoint.read_seconds
            if "read_seconds" in endpoint.model_fields_set
            else min(LONGEST, endpoint.read_seconds),
        }
        hurried = endpoint.model_copy(update=limits)
        async with Client([hurried]) as client:
            servers = client.status()[0]["servers"]
            if not servers:
                text = f"none in {endpoint.url_file}"
                return [
                    Finding("address", False, text, "write the server's address into that file")
                ]
            for base in servers:
                findings += [finding async for finding in _models(endpoint, base, rolls_out)]
            if any(finding.ok is False for finding in findings):
                return findings
            if rolls_out is None:
                return findings + [finding async for finding in _answers(client)]
            findings.append(await _tokens(client))
            if rolls_out.operation.weight_transfer == "disk":
                findings += [await _weights(base) for base in servers]
    except UserError as error:
        findings.append(Finding("settings", False, error.what, error.remedy))
    return findings


async def _models(
    endpoint: Endpoint, base: str, rolls_out: Config | None
) -> AsyncIterator[Finding]:
    """What /models says: whether someone answers, which models, how long a prompt may be."""
    key = await read_key(endpoint)
    began = time.monotonic()
    try:
        status, content = await _get(f"{base}/models", endpoint.connect_seconds, key.headers())
    except UNREACHED as error:
        remedy = "is the server running, and is this its address?"
        yield Finding("reachable", False, f"{base}: {reason(error, key)}", remedy)
        return
    seconds = time.monotonic() - began
    if status in (401, 403):
        text = f"{base} refuses it (HTTP {status})"
        yield Finding("key", False, text, "check key_env or key_file")
        return
    try:
        models = {card["id"]: card for card in orjson.loads(content)["data"]}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        text = f"{base}/models answers with HTTP {status} and no list of models"
        yield Finding("reachable", False, text, "an address ends in /v1 as a rule")
        return
    yield Finding("reachable", True, f"{base} in {seconds * 1000:.0f} ms")
    if endpoint.model not in models:
        served = key.complaint(", ".join(sorted(map(str, models))[:5])) or "none"
        text = f"{endpoint.model} is not served; served: {served}"
        yield Finding("model", False, text, "correct `model`")
        return
    yield Finding("model", True, f"{endpoint.model} is served")
    room = models[endpoint.model].get("max_model_len")
    if not isinstance(room, int):
        yield Finding("context", None, "the server does not say how long a prompt may be")
    elif rolls_out is not None and room < (needed := rolls_out.rollouts.max_context_tokens):
        text = f"{room} tokens: fewer than rollouts.max_context_tokens"
        yield Finding("context", False, text, f"serve with --max-model-len {needed}")
    elif rolls_out is None and room < ENOUGH_CONTEXT:
        text = f"{room} tokens: short, so tools are shown by signature only"
        yield Finding("context", None, text)
    else:
        yield Finding("context", True, f"{room} tokens")


async def _answers(client: Client) -> AsyncIterator[Finding]:
    """Whether it completes, how fast, and whether a schema binds it."""
    plain = await _asked(client, Request("probe", COUNT, max_tokens=64, temperature=0.0))
    if isinstance(plain, str):
        yield Finding("answer", False, plain, "see the server's log")
        return
    if plain.finish != "length" and (plain.finish in UNREAD or not answer_of(plain)):
        text = f"no usable answer ({plain.finish})"
        yield Finding("answer", False, text, "is it a chat model with a template?")
    else:
        speed = plain.tokens_out / plain.seconds if plain.seconds else 0.0
        text = f"{plain.tokens_out} tokens in {plain.seconds:.2f} s ({speed:.0f} a second, alone)"
        yield Finding("answer", True, text)
    if client.settings[0].structured:
        asked = [{"role": "user", "content": COLOUR}]
        bound = await _asked(client, Request("probe", asked, schema=SCHEMA, max_tokens=128))
        yield _structured(bound)
    else:
        yield Finding("structured output", None, "switched off (structured = false)")


async def _tokens(client: Client) -> Finding:
    """Whether token ids are taken and given, with the log-probabilities that the loss is corrected
    by."""
    extra = {"return_token_ids": True, "stop_token_ids": [], "logprobs": 0}
    answer = await _asked(
        client, Request("probe", prompt=[1, 2, 3], max_tokens=8, temperature=1.0, extra=extra)
    )
    if isinstance(answer, str):
        return Finding("tokens", False, answer, "see the server's log")
    if not answer.token_ids or len(answer.token_ids) != len(answer.logprobs):
        text = "no token ids with their log-probabilities"
        return Finding("tokens", False, text, "serve with vLLM 0.22 or later")
    text = f"{len(answer.token_ids)} with log-probabilities in {answer.seconds:.2f} s"
    return Finding("tokens", True, text)


async def _weights(base: str) -> Finding:
    """Whether weights can be loaded in place. Nothing is loaded."""
    server = base.removesuffix("/v1")
    try:
        status, _ = await _get(f"{server}/weight_info")
    except UNREACHED as error:
        return Finding(
            "weights", False, f"{server}: {reason(error, Key())}", "see the server's log"
        )
    if status == 200:
        return Finding("weights", True, f"{server} takes them, and says which it has")
    remedy = "serve with vLLM 0.22 or later and VLLM_SERVER_DEV_MODE=1"
    return Finding("weights", False, f"{server} does not take them", remedy)


def _structured(bound: Completion | str) -> Finding:
    """What the reader of every model's answers makes of one."""
    question = "structured output"
    if isinstance(bound, str):
        return Finding(question, False, bound, "see the server's log")
    try:
        FORM.read_completion(bound, constrained=True)
    except Unreadable as error:
        remedy = "serve with a grammar backend, or choose a model that follows its instructions"
        return Finding(question, False, f"{error}: {bound.text[:80]!r}", remedy)
    with suppress(ValueError):
        if bound.constrained and fits(SCHEMA, model_json.read_exact(bound.text)):
            return Finding(question, True, f"the schema was kept, {bound.seconds:.2f} s")
    why = (
        f"no schema binds its text: {bound.text[:80]!r}"
        if bound.constrained
        else "the server refuses response_format json_schema"
    )
    remedy = "structured = false spares the attempt"
    return Finding(question, None, f"{why}; its answer can be read", remedy)


async def _asked(client: Client, request: Request) -> Completion | str:
    try:
        return await client.complete(request)
    except InfrastructureError as error:
        return str(error)


async def _get(
    url: str, connect_seconds: float = 5.0, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=10.0, sock_connect=connect_seconds)
    async with (
        aiohttp.ClientSession(trust_env=False, timeout=timeout) as session,
        session.get(url, headers=headers, allow_redirects=False) as response,
    ):
        return response.status, await read_reply(response)


def check_endpoints(config: Config) -> dict[str, list[Finding]]:
    """The findings about the endpoints of `config`, those that write, those that play and those
    that roll out, by kind and name, asked at the same time."""
    asked: dict[str, tuple[Endpoint, Config | None]] = {
        f"{kind} {endpoint.name or endpoint.model}": (
            endpoint,
            config if kind == "rollout server" else None,
        )
        for kind, group in (
            ("endpoint", "endpoints"),
            ("player", "players"),
            ("rollout server", "rollout_servers"),
        )
        for endpoint in getattr(config.operation, group)
    }
    logs.configure("rods", "error")  # a finding says it all

    async def ask() -> list[list[Finding]]:
        return await asyncio.gather(*(check_endpoint(*about) for about in asked.values()))

    return dict(zip(asked, asyncio.run(ask()), strict=True))
