"""The command line of `rods-eval run`, and the source of outputs that it names: an endpoint, local
weights, a run's checkpoint, or files."""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from pydantic import ValidationError

from rods.analysis.containment import read_json
from rods.canonical import JsonObject, frozen, present
from rods.config import Budgets, Endpoint, Operation, PolicySettings, read_config
from rods.errors import UserError
from rods.evaluation import heldout
from rods.family.benchmarks.benchmarks import named, packaged
from rods.family.benchmarks.contract import Benchmark, Need, Packaged, kinds
from rods.family.benchmarks.folder import (
    COLDEST,
    LOST_SHARE,
    Documents,
    Form,
    Part,
    Protocol,
    Settings,
    SystemPrompt,
)
from rods.files import BULK, sha256_of

T = TypeVar("T")
Precision = Literal["auto", "float32", "bf16"]
Kind = Literal["endpoint", "weights", "results"]
# what a policy says of its chat template
_OWN = ("family", "chat_template_kwargs")


def _options(title: str, place: int) -> Parameter:
    """An option of this group of the help."""
    return Parameter(group=Group(title, sort_key=place))


_policy = _options("The policy, one of these", 1)
_about = _options("About the policy", 2)
_user = _options("The model that plays the user, where a benchmark has one", 3)
_encoder = _options("The model that embeds texts, where a benchmark has memories of vectors", 4)
_search = _options("The search of the web, where a benchmark has one", 5)
_tasks = _options("Tasks", 6)
_protocol = _options("Protocol", 7)
_limit = _options("Limits", 8)
REMEDIES: dict[Need, str] = {
    "user": "a model plays the user; name it by --user-url and --user-model",
    "encoder": "texts are embedded; name what does it by --encoder-url and --encoder-model",
    "search": "the web is searched with a key of SerpAPI of your own; name its variable by "
    "--search-key-env",
}
_SIGNATURES = (
    "signatures: one line a tool, not the benchmark's documents, for contexts that these do not fit"
)


@dataclass(frozen=True)
class Options:
    """The command line of `rods-eval run`.

    Args:
        url: an OpenAI-compatible endpoint; several: replicas
        config: a configuration: its [operation] endpoint, budgets
        weights: a folder with weights and tokenizer
        run: a run's newest checkpoint, or that of --step
        recorded: the benchmark's result files
        model: the model as the endpoint calls it
        name: what reports and the result folder call the policy
        key_env: the environment variable that holds the endpoint's key
        step: with --run: the checkpoint's step
        chat_template_kwargs: further variables of the chat template, in JSON; default: the run's
        user_url: its OpenAI-compatible endpoint; several: replicas
        user_model: the model as that endpoint calls it
        user_key_env: the environment variable that holds that endpoint's key
        encoder_url: its endpoint with /embeddings; several: replicas
        encoder_model: the model as that endpoint calls it
        encoder_key_env: the environment variable that holds that endpoint's key
        search_key_env: the environment variable that holds your key of SerpAPI
        search_url: what answers in the place of SerpAPI; default: SerpAPI
        benchmark: a folder of rods/family/benchmarks; default: the one declared so
        tasks: a JSONL file of any environment's; default: the benchmark's
        trust: with --tasks: run the code of worlds that they name, whoever wrote it
        part: which split; default: the benchmark's, of a file all
        types: kinds of tasks; default: all
        tasks_per_type: at most so many of a type, by a fixed draw; 0: all
        samples: episodes a task
        protocol: default: official, or what the run was trained with
        form: how calls are made
        system_prompt: of the tags dialect
        temperature: the default is the benchmark's
        top_p: the nucleus
        max_tokens: of one output
        max_context: tokens of an episode (local weights)
        in_flight: episodes at a time
        precision: local weights; default: the run's
        threads: torch threads of local weights; default: the run's
        patience: seconds to wait for an endpoint that is gone or fails
        lost_share: of the episodes: so many may end with a completion that is none
        budget_tokens: prompt and answer tokens in all; 0: no limit
        budget_requests: requests in all; 0: no limit
    """

    url: Annotated[tuple[str, ...], _policy] = ()
    config: Annotated[Path | None, _policy] = None
    weights: Annotated[Path | None, _policy] = None
    run: Annotated[Path | None, _policy] = None
    recorded: Annotated[Path | None, _policy] = None

    model: Annotated[str, _about] = ""
    name: Annotated[str, _about] = ""
    key_env: Annotated[str, _about] = ""
    step: Annotated[int | None, _about] = None
    chat_template_kwargs: Annotated[str, _about] = ""

    user_url: Annotated[tuple[str, ...], _user] = ()
    user_model: Annotated[str, _user] = ""
    user_key_env: Annotated[str, _user] = ""

    encoder_url: Annotated[tuple[str, ...], _encoder] = ()
    encoder_model: Annotated[str, _encoder] = ""
    encoder_key_env: Annotated[str, _encoder] = ""

    search_key_env: Annotated[str, _search] = ""
    search_url: Annotated[str, _search] = ""

    benchmark: Annotated[str, _tasks] = ""
    tasks: Annotated[Path | None, _tasks] = None
    trust: Annotated[bool, _tasks] = False
    part: Annotated[Part | None, _tasks, Parameter(name="--split")] = None
    types: Annotated[tuple[str, ...], _tasks, Parameter(consume_multiple=True)] = ()
    tasks_per_type: Annotated[NonNegativeInt, _tasks] = 0
    samples: Annotated[PositiveInt, _tasks] = 1

    protocol: Annotated[Protocol | None, _protocol] = None
    form: Annotated[Form, _protocol, Parameter(name="--calls")] = "prompt"
    documents: Annotated[Documents, _protocol, Parameter(help=_SIGNATURES)] = "full"
    system_prompt: Annotated[SystemPrompt | None, _protocol] = None
    temperature: Annotated[float, _protocol] = COLDEST
    top_p: Annotated[float, _protocol] = 1.0
    max_tokens: Annotated[PositiveInt, _protocol] = 4096
    max_context: Annotated[int, _protocol] = 32_768

    in_flight: Annotated[PositiveInt, _limit] = 64
    precision: Annotated[Precision | None, _limit] = None
    threads: Annotated[int | None, _limit] = None
    patience: Annotated[float, _limit] = 600.0
    lost_share: Annotated[float, _limit] = LOST_SHARE
    budget_tokens: Annotated[int, _limit] = 0
    budget_requests: Annotated[int, _limit] = 0


@frozen
class Source:
    """`about` is the policy as evaluation.json records it; `protocol` and `system_prompt` are those
    it was trained with; `operation` says how local weights are computed."""

    kind: Kind
    about: JsonObject
    path: Path = field(default_factory=Path)
    endpoint: Endpoint | None = None
    budgets: Budgets = field(default_factory=Budgets)
    operation: Operation = field(default_factory=Operation)
    protocol: Protocol = "official"
    system_prompt: SystemPrompt = "plain"

    @property
    def recorded(self) -> bool:
        return self.kind == "results"


def find(options: Options) -> Source:
    """The policy that the options name. Raises UserError for none, several, or one that cannot be
    had."""
    policies = [
        f"--{name}"
        for name in ("url", "config", "weights", "run", "recorded")
        if getattr(options, name)
    ]
    if len(policies) != 1:
        what = f"several policies: {', '.join(policies)}" if policies else "no policy"
        raise UserError(what, remedy="name one by --url, --config, --weights, --run or --recorded")
    for path in (options.weights, options.recorded):
        if path is not None and not path.exists():
            raise UserError("there is no such file or folder", where=path, remedy="check the path")
    if options.weights is not None:
        path = options.weights.resolve()
        about = {"kind": "weights", "name": options.name or path.name, "path": str(path)}
        return _computed(Source("weights", about, options.weights), options)
    if options.run is not None:
        return _checkpoint(options.run, options)
    return _endpoint(options) if options.recorded is None else _files(options.recorded, options)


def policy(settings: Settings) -> PolicySettings:
    """Local weights as evaluation.json has them, with how their chat template is used."""
    own = {name: settings.policy[name] for name in _OWN if name in settings.policy}
    dialect = "native" if settings.protocol == "native" else "hermes"
    fields = {"model": settings.policy["path"], "dialect": dialect, **own}
    return _checked(PolicySettings, kind="transformers", **fields)


def settings(source: Source, benchmark: Benchmark, options: Options) -> Settings:
    """The settings of the evaluation. Raises UserError for options that contradict each other."""
    own = source.protocol if source.protocol in benchmark.protocols else benchmark.protocols[0]
    protocol: Protocol = options.protocol or own
    here: dict[Need, Any] = {
        "user": options.user_url and {"model": options.user_model},
        "encoder": options.encoder_url and {"model": options.encoder_model},
        "search": options.search_key_env and {"url": options.search_url or "SerpAPI"},
    }
    available = [need for need in here if here[need]]
    types = tuple(dict.fromkeys(options.types)) or kinds(benchmark, available)
    types = types or tuple(benchmark.kinds)
    unknown = ", ".join(set(types) - {*benchmark.kinds})
    native = options.form == "native"
    official = protocol == "official"
    used = {
        need: [kind for kind in types if kind in benchmark.needs.get(need, ())]
        for need in (() if source.recorded else here)
    }
    lacking = [(need, of) for need, of in used.items() if of and need not in available]
    for wrong, why in (
        (
            source.recorded and options.protocol,
            "recorded outputs have had their protocol; leave --protocol out",
        ),
        (native and not official, "--calls native belongs to the official protocol"),
        (
            options.form not in benchmark.forms,
            f"these tasks have no calls in {options.form} form; leave --calls out",
        ),
        (
            native and source.kind == "weights",
            "native tool calls are parsed by a server; local weights have none",
        ),
        (options.tasks and options.benchmark, "--tasks and --benchmark name different tasks"),
        (unknown, f"--types {unknown}: these tasks are of {', '.join(benchmark.kinds)}"),
        (
            protocol not in benchmark.protocols,
            f"these tasks are played in {' or '.join(benchmark.protocols)}",
        ),
        (
            source.recorded and not isinstance(benchmark, Packaged),
            "recorded outputs are judged on a benchmark's tasks alone",
        ),
        (
            options.documents != "full" and not official,
            "--documents belongs to the official protocol",
        ),
        (
            options.documents not in benchmark.documents,
            "these tools have the package's own documents; leave --documents out",
        ),
        (
            options.system_prompt and protocol != "tags",
            "--system-prompt belongs to the protocol tags",
        ),
        (
            protocol == "compact" and source.kind == "endpoint",
            "the compact dialect's messages cannot be sent to a server; --protocol names another",
        ),
        *((True, f"{', '.join(of)}: {REMEDIES[need]}") for need, of in lacking),
        (
            bool(options.user_url) != bool(options.user_model),
            "--user-url and --user-model belong together",
        ),
        (
            bool(options.encoder_url) != bool(options.encoder_model),
            "--encoder-url and --encoder-model belong together",
        ),
        (
            options.search_url and not options.search_url.startswith(("http://", "https://")),
            "--search-url begins with http:// or https://",
        ),
        (
            not 0 <= options.temperature <= 2 or not 0 < options.top_p <= 1,
            "--temperature 0 to 2, --top-p above 0 to 1",
        ),
    ):
        if wrong:
            raise UserError(
                why, where="the command line", remedy="`rods-eval run --help` lists the options"
            )
    same = ("form", "tasks_per_type", "samples", "documents", "temperature", "top_p", "max_tokens")
    return Settings(
        policy=source.about,
        part=options.part or benchmark.part,
        types=types,
        protocol=protocol,
        system_prompt=options.system_prompt or source.system_prompt,
        **{need: here[need] for need, of in used.items() if of},
        **{name: getattr(options, name) for name in same},
    )


def _endpoint(options: Options) -> Source:
    budgets = {"tokens": options.budget_tokens, "requests": options.budget_requests}
    operation = Operation()
    if options.config is not None:
        operation = read_config(options.config).operation
        if len(operation.endpoints) != 1:
            raise UserError(
                f"names {len(operation.endpoints)} endpoints; one policy is evaluated at a time",
                where=options.config,
                remedy="leave one [[operation.endpoints]], or give --url and --model",
            )
        endpoint = operation.endpoints[0]
        budgets = {
            name: value or getattr(operation.budgets, name) for name, value in budgets.items()
        }
    elif not options.model:
        raise UserError(
            "no model", where="--url", remedy="say with --model what the endpoint calls it"
        )
    else:
        endpoint = _served(options.model, options.url, options.key_env, options)
    about: JsonObject = {
        "kind": "endpoint",
        "name": options.name or endpoint.model,
        "model": endpoint.model,
    }
    extra = {**endpoint.extra, **_template(options)}
    endpoint = endpoint.model_copy(update={"extra": extra})
    about |= {"extra": extra} if extra else {}
    limits = _checked(Budgets, **budgets)
    return Source("endpoint", about, endpoint=endpoint, budgets=limits, operation=operation)


def served_beside(role: str, options: Options) -> Endpoint:
    """The model that plays the `user`, or is the `encoder`."""
    url, model, key_env = (
        getattr(options, f"{role}_{name}") for name in ("url", "model", "key_env")
    )
    return _served(model, url, key_env, options)


def _template(options: Options) -> JsonObject:
    """The variables of the chat template on the command line. Raises UserError."""
    if not options.chat_template_kwargs:
        return {}
    variables = read_json(options.chat_template_kwargs)
    if not isinstance(variables, dict):
        raise UserError(
            "is no JSON object",
            where="--chat-template-kwargs",
            remedy="for instance '{\"enable_thinking\": false}'",
        )
    return {"chat_template_kwargs": variables}


def _served(model: str, urls: tuple[str, ...], key_env: str, options: Options) -> Endpoint:
    waits = dict.fromkeys(("patience_seconds", "retry_seconds"), options.patience)
    return _checked(
        Endpoint, model=model, urls=urls, key_env=key_env, concurrency=options.in_flight, **waits
    )


def _checked(kind: type[T], /, **fields: Any) -> T:
    try:
        return kind(**fields)
    except ValidationError as error:
        wrong = "; ".join(f"{fault['msg']}: {fault['input']!r}" for fault in error.errors())
        raise UserError(wrong, where="the command line", remedy="see docs/endpoints.md") from None


def _checkpoint(run: Path, options: Options) -> Source:
    """A run's policy, in the dialect and with the prompt that it was trained with."""
    opened, checkpoint = heldout.checkpoint(run, "end" if options.step is None else options.step)
    config = opened.config
    position = checkpoint.position
    if config.policy.kind == "simulated":
        raise UserError(
            "a simulated policy says nothing", where=run, remedy="evaluate a run with weights"
        )
    name = options.name or f"{run.resolve().name}_step_{position.step}"
    about = {
        "kind": "run",
        "name": name,
        "run": str(run.resolve()),
        "step": position.step,
        "attempt": position.attempt,
        "path": str(checkpoint.policy.resolve()),
        **{name: value for name in _OWN if (value := getattr(config.policy, name))},
    }
    source = Source(
        "weights",
        about,
        checkpoint.policy,
        operation=config.operation,
        protocol=config.policy.dialect,
        system_prompt=config.curriculum.stages[-1].prompt,
    )
    return _computed(source, options)


def _computed(source: Source, options: Options) -> Source:
    """`source` with the number format and threads of the command line; and, about it, what else the
    scores of local weights depend on: the number format that `auto` means here, and the context."""
    from rods.trainer import torch_settings  # torch only where weights are

    operation = source.operation.model_copy(
        update=present(precision=options.precision, threads=options.threads)
    )
    precision = "bf16" if torch_settings.bf16(operation) else "float32"
    about = {**source.about, "precision": precision, "max_context": options.max_context}
    about |= _template(options)
    return replace(source, about=about, operation=operation)


def _files(path: Path, options: Options) -> Source:
    outputs = packaged(named(options.benchmark), path).outputs(path)
    digests = (bytes.fromhex(sha256_of(file, BULK)) for file in outputs)
    digest = hashlib.sha256(b"".join(digests)).hexdigest()
    name = options.name or path.resolve().name.split(".")[0]
    states = all(outputs.values())
    about = {"kind": "results", "name": name, "sha256": digest, "states_data": states}
    return Source("results", about, path)
