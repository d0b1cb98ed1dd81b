"""The operation half: how and where a run is worked on. May change at every start."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from rods.canonical import JsonObject
from rods.config.sections import OPERATION, with_sections
from rods.extension import Door
from rods.known_keys import remember_address
from rods.section import AtLeastOne, Count, NonNegative, Positive, Section

# values of `operation.compute`: `module:function` of run and held-out index that has the places
COMPUTES: Door[Mapping[str, str]] = Door("computes")


class Endpoint(Section):
    """A language model behind an OpenAI-compatible server (vLLM, for instance): one backbone of
    those that write.

    Addresses look like `http://host:8000/v1`. Never write a key here: name the variable or the file
    that holds it."""

    model: str = Field(min_length=1)  # as the server calls it
    name: str = ""  # what logs and provenance call this endpoint; empty: the model
    urls: tuple[str, ...] = ()  # addresses; several are replicas that serve the same model
    # instead: a file with an address a line, read again when a connection fails (a moved server)
    url_file: str = ""
    weight: Positive = 1.0  # this endpoint's share of the variants
    # the environment variable that holds the API key
    key_env: str = Field("", pattern=r"^([A-Z_][A-Z0-9_]*)?$")
    key_file: str = ""  # instead: a file that holds the API key
    # at most so many calls in flight; fewer while the server shows overload
    concurrency: AtLeastOne = 64
    connect_seconds: Positive = 10.0  # to open a connection
    read_seconds: Positive = 300.0  # from a request to the end of its answer
    # one call's failed attempts and the waits between them, no pauses
    retry_seconds: NonNegative = 900.0
    # calls are given up after so long an outage; 0: they wait, those of episodes `retry_seconds`
    patience_seconds: NonNegative = 0.0
    # tokens added where a role asks for thinking, or the model was seen to think
    thinking_tokens: Count = 8192
    # answers are constrained by JSON Schema where a stage has one; false: never
    structured: bool = True
    # more fields of every request, for instance { chat_template_kwargs = { enable_thinking = false
    # } }
    extra: JsonObject = Field(default_factory=dict)
    # names of its own for fields of a request, such as { max_tokens = "max_completion_tokens" };
    # "" leaves one out. A refusal that names one is understood without
    fields: dict[str, str] = Field(default_factory=dict)

    @property
    def giving_up(self) -> "Endpoint":
        """As episodes use it: calls never wait for ever for a server that is gone
        (`patience_seconds`)."""
        return self.model_copy(
            update={"patience_seconds": self.patience_seconds or max(1.0, self.retry_seconds)}
        )

    @model_validator(mode="after")
    def _sources(self) -> "Endpoint":
        if bool(self.urls) == bool(self.url_file):
            raise ValueError("give either urls or url_file")
        if self.key_env and self.key_file:
            raise ValueError("give either key_env or key_file")
        for url in self.urls:
            base_address(url)
        return self


class PlayerBudgets(Section):
    """What calls of the models that play may cost; 0: no limit. Reached, no further call is sent,
    and the run stops."""

    tokens: Count = 0  # prompt and answer tokens of the run
    requests: Count = 0  # HTTP requests of the run, repeated ones included


class Budgets(PlayerBudgets):
    """What calls of the models that write may cost; 0: no limit. Reached, no further call is sent,
    none is cut off."""

    variant_calls: Count = 0  # calls for one variant


class Sandbox(Section):
    """Environments that run in confined worker processes (docs/sandbox.md); the others run in this
    process."""

    # names such as "package.module:factory" or "file.py:factory"
    environments: tuple[str, ...] = ()
    # a machine that cannot do so much is refused
    lowest_tier: Literal["limits", "landlock", "bubblewrap"] = "landlock"
    # processes an environment; each has a second one waiting behind it
    workers: AtLeastOne = 2
    # processes of all environments together, spare ones included
    processes: AtLeastOne = 32
    seconds: Positive = 1.0  # a call may take
    memory_bytes: int = Field(512 << 20, ge=64 << 20)  # address space of a process
    # more files and folders that they may read; packages are among them anyway
    readable: tuple[str, ...] = ()


@with_sections(OPERATION)
class Operation(Section):
    """May change at every start; logged in operation.*.jsonl."""

    workers: AtLeastOne = 64  # seeds in flight in the daemon
    # where authors and gates compute: "threads" of the daemon, "processes", or "ray"
    # (docs/scale.md)
    compute: str = "threads"
    # processes, or actors; 0: one a core of this machine, or of the cluster
    compute_places: Count = 0
    compute_seconds: Positive = 600.0  # an item may take; its worker is then ended
    compute_memory_bytes: Count = 0  # address space of each; 0: no limit
    poll_seconds: Positive = 0.2  # between looks at the other process's files
    # the trainer waits so long for a daemon that does not get on (lockstep, static pool)
    deadline_seconds: Positive = 600.0
    # after a signal to stop, a step is interrupted; 0: it is taken to its end
    grace_seconds: NonNegative = 0.0
    # daemon: leave after so long without a living trainer; 0: stay
    idle_exit_seconds: NonNegative = 0.0
    # a checkpoint is also due after so long, or 20 times its own duration; 0: by steps alone
    checkpoint_seconds: NonNegative = 120.0
    step_limit: Count = 0  # stop this start after so many steps; 0: none
    steps_per_second: NonNegative = 0.0  # kind=simulated: pace; 0: as fast as it can
    # from where on events are logged
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    # dashboards that each step is reported to; each needs its package
    report_to: tuple[Literal["wandb", "trackio", "mlflow", "tensorboard"], ...] = ()
    # a log's live part is closed above so many bytes; 0: never
    log_part_bytes: Count = 16_000_000
    # logs/ keeps the last so many bytes of what each process says; 0: all
    event_bytes: Count = 64_000_000
    trace_bytes: Count = 64_000_000  # traces/ keeps at most so many bytes; 0: no traces
    trace_every: AtLeastOne = 10  # steps between traced ones
    threads: Count = 0  # torch threads; 0: torch's own choice
    # bf16: matrix products in bfloat16; auto: where a GPU is good at it
    precision: Literal["auto", "float32", "bf16"] = "auto"
    # sequences a backward pass; 0: on a CPU, where fewer are faster, rollouts_per_task, else all
    micro_batch: Count = 0
    endpoints: tuple[Endpoint, ...] = ()  # the language models that write
    # those that play tools, users and verifiers; none: those that write play, too
    players: tuple[Endpoint, ...] = ()
    # the vLLM server that rolls out the policy, at most one; none: the trainer does
    rollout_servers: tuple[Endpoint, ...] = ()
    # how that server gets weights: a folder, or NCCL between GPUs
    weight_transfer: Literal["disk", "nccl"] = "disk"
    # weight_transfer=disk: where, on a disk that both see under one path; empty: in the run
    weights_folder: str = ""
    # instead of a server: vLLM in the trainer's own processes (needs it installed beside)
    colocated: bool = False
    # colocated: the share of each GPU's memory that vLLM takes
    colocated_memory: float = Field(0.3, gt=0, lt=1)
    budgets: Budgets = Budgets()
    player_budgets: PlayerBudgets = PlayerBudgets()
    sandbox: Sandbox = Sandbox()

    @model_validator(mode="after")
    def _names(self) -> "Operation":
        for endpoints in (self.endpoints, self.players):
            names = [endpoint.name or endpoint.model for endpoint in endpoints]
            if len(set(names)) < len(names):
                raise ValueError("two endpoints have the same name: give each its own `name`")
        if len(self.rollout_servers) > 1:
            raise ValueError(
                "one rollout server at most: replicas share its table, as several urls"
            )
        if self.colocated and self.rollout_servers:
            raise ValueError(
                "colocated and rollout_servers exclude each other: vLLM is here or there"
            )
        if (
            self.weight_transfer == "nccl"
            and sum(len(server.urls) for server in self.rollout_servers) != 1
        ):
            raise ValueError(
                "weight_transfer = nccl needs one rollout server with one address in urls"
            )
        return self

    if TYPE_CHECKING:  # sections that extensions bring

        def __getattr__(self, name: str) -> Any: ...


def base_address(text: str) -> str:
    """`text` as the base address to which `/chat/completions` is added; a bare `http://host:port`
    gets its `/v1`. Raises ValueError for anything else. The message never repeats a part that may
    hold a password or a key, nor does any other text from then on."""
    remember_address(text)
    try:
        parts = urlsplit(text.strip())
        port = parts.port
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError
    except ValueError:
        raise ValueError("not an address like http://host:8000/v1") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "an address must hold no user name, password or query: name a key by key_env or "
            "key_file"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path or '/v1'}"


def addresses(text: str) -> list[str]:
    """The addresses in a file of one a line; blank lines and those that begin with # say nothing.
    Raises ValueError naming the line."""
    bases = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip()[:1] not in "#":  # nor empty
            try:
                bases.append(base_address(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    return bases
