"""`rods-train sft --config FILE --out FOLDER`: supervised learning on demonstrations, before GRPO.

A base model that cannot write the dialect earns nothing, and GRPO then learns nothing. This trains
it on the training tasks of a configuration, and writes a folder that `policy.model` can name.
`--export FILE` writes the same demonstrations in the common chat format, for any other tool.
Held-out tasks are never used.

A task is demonstrated by its known solution, played through the engine: its ground truth, the calls
that its rubric expects, or what an extension knows. There is one call a reply, so that a value
which a call returns is in the conversation before it is used. Where no call is right the
demonstration says so: it asks for what is missing, or says that there is no tool for it. A user who
is played is asked for what it was not heard to say (rods/gates/reference_policy.py).

Or it imitates the episodes of a teacher that `rods-eval run --tasks FILE` has kept, without those
with faults (003 Appendix B.2; docs/training.md lists them).
"""

import errno
import itertools
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from cyclopts import Parameter
from cyclopts.types import PositiveFloat, PositiveInt

from rods import dialects
from rods.buffers.log.tail import read
from rods.calls import Call
from rods.canonical import JsonObject, keyed_random
from rods.config import Config, PolicySettings, read_config
from rods.conversations import Checks, Persona
from rods.dialects import Dialect, Message
from rods.dialects.native import as_rendered, assistant_as_rendered, call_as_rendered
from rods.dialects.remote import Served
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.errors import UserError, say
from rods.files import explained, made_whole, read_regular
from rods.gates.ground_truth import OPEN_TASKS, open_kind
from rods.gates.reference_policy import ReferencePolicy
from rods.players import Players
from rods.tasks import AnyTask, OpenTask, Task
from rods.worlds.sources import beside, load_tasks

if TYPE_CHECKING:
    from rods.trainer.chat import Chat  # imports torch
    from rods.trainer.nano.supervised import Encoded

DONE = "Done."
ASK = "I need one more detail before I can do that. Could you tell me?"
LACK = "I have no tool for that at the moment."
SLACK = 8  # replies beside the calls of a known solution: what the user is asked
Fault = Literal["format", "unfinished", "impossible", "below least"]


def warm_up(
    *,
    config: Annotated[Path, Parameter(help="the run's configuration: data, policy.model, dialect")],
    out: Annotated[
        Path | None, Parameter(help="where the warmed-up policy goes: a new folder")
    ] = None,
    export: Annotated[
        Path | None, Parameter(help="JSON lines of the demonstrations in the chat format")
    ] = None,
    teacher: Annotated[
        Path | None,
        Parameter(
            help="imitate the episodes of this folder of `rods-eval run --tasks`, not ground truth"
        ),
    ] = None,
    least: Annotated[
        float, Parameter(help="with --teacher: the share of its goal that an episode has earned")
    ] = 0.0,
    rounds: Annotated[
        bool, Parameter(negative="", help="a sample for each reply, not for each conversation")
    ] = False,
    passes: Annotated[PositiveFloat, Parameter(help="how often each sample is shown")] = 2.0,
    sequences: Annotated[PositiveInt, Parameter(help="samples a step")] = 8,
    learning_rate: Annotated[PositiveFloat, Parameter(help="AdamW's, at its peak")] = 1e-5,
) -> None:
    """Supervised learning on ground truth, or on a teacher's episodes. Raises UserError."""
    if out is None and export is None:
        raise UserError("nothing to do", where="sft", remedy="give --out, --export, or both")
    settings = read_config(config)
    tasks = {
        task.id: task for task in load_tasks(settings.data, config.parent) if task.split == "train"
    }
    dialect = _dialect(settings.policy)
    if teacher is None:
        with Environments(
            settings.operation.sandbox, beside(settings.data, config.parent)
        ) as environments:
            traces = demonstrate(list(tasks.values()), settings.policy, environments)
    else:
        traces = _imitable(teacher, tasks, dialect, least)
    if export is not None:
        lines = (
            line
            for trace in traces
            for line in _exported(tasks[trace.task], trace, dialect, rounds)
        )
        export.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    if out is not None:
        _train(settings, traces, out, passes, sequences, learning_rate, rounds)


def _imitable(
    folder: Path, tasks: Mapping[str, AnyTask], dialect: Dialect, least: float
) -> list[Trace]:
    """The episodes of a teacher without a fault; says how many have one, and which."""
    traces = taught(folder, list(tasks.values()), dialect)
    sound = []
    left_out = Counter[str]()
    for trace in traces:
        kind = open_kind(tasks[trace.task])
        why = fault(trace, least, 0 if kind is None else kind.held(tasks[trace.task]))
        if why is None:
            sound.append(trace)
        else:
            left_out[why] += 1
    note = (
        f" ({', '.join(f'{count} {name}' for name, count in left_out.most_common())})"
        if left_out
        else ""
    )
    say(f"{len(sound)} of {len(traces)} episodes of the teacher are imitated{note}", aside=True)
    if not sound:
        remedy = "let the teacher play the training tasks of --config"
        raise UserError("no episode to imitate", where=str(folder), remedy=remedy)
    return sound


def _train(
    config: Config,
    traces: Sequence[Trace],
    out: Path,
    passes: float,
    size: int,
    learning_rate: float,
    rounds: bool,
) -> None:
    if config.policy.kind != "transformers":
        what = f"a policy of kind {config.policy.kind!r} has no base model to warm up"
        remedy = 'use kind = "transformers" and name the folder in policy.model'
        raise UserError(what, where="policy.kind", remedy=remedy)
    if out.exists():
        raise UserError("is there already", where=str(out), remedy="name a new folder")
    from rods.trainer import torch_settings
    from rods.trainer.engines.local import LocalEngine
    from rods.trainer.nano.supervised import encode, fit, in_batches

    engine = LocalEngine.load_alone(
        Path(config.policy.model), config.rollouts, config.operation, config.policy
    )
    model = engine.model
    chat = engine.chat
    dialect = _dialect(config.policy)
    encoded = (
        encode_rounds(chat, trace, dialect) if rounds else [encode(chat, trace)] for trace in traces
    )
    samples = list(itertools.chain.from_iterable(encoded))
    fitting = [sample for sample in samples if len(sample[0]) <= config.rollouts.max_context_tokens]
    if not fitting:
        what = f"0 of {len(samples)} samples fit the context"
        remedy = "raise it, or give other tasks"
        raise UserError(what, where="rollouts.max_context_tokens", remedy=remedy)
    if len(fitting) < len(samples):
        say(
            f"{len(samples) - len(fitting)} samples do not fit the context and are left out",
            aside=True,
        )
    remedy = "make room, or name another folder"
    # before hours of learning, which it would end
    with explained("cannot write the policy", out, remedy):
        out.parent.mkdir(parents=True, exist_ok=True)
        needed = sum(weights.nbytes for weights in model.parameters())
        if needed > (free := shutil.disk_usage(out.parent).free):
            raise OSError(errno.ENOSPC, f"it takes {needed:,} bytes, and {free:,} are free")
    rng = keyed_random(config.random_seeds.policy, "sft")
    steps = max(1, math.ceil(passes * math.ceil(len(fitting) / size)))

    def progress(step: int, of: int, loss: float) -> None:
        if step in (1, of) or step % 10 == 0:
            say(f"step {step} of {of}: loss {loss:.3f}", aside=True)

    model.train()
    batches = in_batches(chat.pad, itertools.repeat(fitting), size, rng, rest=True)
    optimizer = torch_settings.make_optimizer("adamw", model, learning_rate)
    fit(
        model,
        batches,
        optimizer,
        steps=steps,
        warm_up=max(1, steps // 10),
        micro_batch=config.operation.micro_batch,
        progress=progress,
        bf16=engine.bf16,
    )
    with explained("cannot write the policy", out, remedy), made_whole(out) as part:
        model.save_pretrained(part)
        chat.tokenizer.save_pretrained(part)


def _exported(task: AnyTask, trace: Trace, dialect: Dialect, rounds: bool) -> Iterator[JsonObject]:
    """The demonstration in the common chat format: {"messages": [{"role", "content"}, …], …}, where
    the form is a chat template's with "tools" and "tool_calls"; with `rounds` a line for each
    reply, the only one to learn of it: {"prompt": [messages], "completion": [the reply], …}."""
    about: JsonObject = {"task": task.id, "type": task.type, "split": task.split}
    if tools := _tools(trace):
        about["tools"] = tools
    messages = _conversation(trace, dialect)
    if not rounds:
        yield {"messages": messages, **about}
        return
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            yield {"prompt": messages[:place], "completion": [message], **about}


def _tools(trace: Trace) -> list[Any]:
    return [orjson.loads(tool) for message in trace.messages for tool in message.tools]


def _conversation(trace: Trace, dialect: Dialect, until: int | None = None) -> list[JsonObject]:
    """Its messages, those before place `until`, as chat templates take them: in their own form
    calls stand beside the text."""
    native = dialect.name == "native"
    steps = (step for turn in trace.turns for step in turn.steps)
    shown: list[JsonObject] = []
    place = 0  # of a result behind its reply
    for message in trace.messages[:until]:
        if message.role != "assistant":
            shown += [as_rendered(message, place)] if message.content or message.name else []
            place += 1
            continue
        place = 0
        calls = [
            call_as_rendered(call.name, call.arguments, number)
            for number, call in enumerate(next(steps).calls if native else ())
        ]
        answer = dialect.parse(message.content).answer if native else None
        said = {"role": "assistant", "content": answer or message.content}
        shown.append(assistant_as_rendered(calls) if calls else said)
    return shown


def encode_rounds(chat: "Chat", trace: Trace, dialect: Dialect) -> "list[Encoded]":
    """A sample for each reply of a conversation (003 Appendix B.2): all before it as the chat
    template renders it, which may leave out earlier reasoning, then the reply, and 1 for its tokens
    alone."""
    rounds = []
    for index, message in enumerate(trace.messages):
        if message.role == "assistant":
            if chat.family is None:
                prompt = chat.prompt(trace.messages[:index])
            else:
                before = _conversation(trace, dialect, index)
                prompt = chat.tokens(chat.rendered(before, _tools(trace), opening=True))
            following = itertools.takewhile(
                lambda message: message.role != "assistant", trace.messages[index + 1 :]
            )
            written = [*chat.reply(message.content), chat.closing([*following])]
            rounds.append(([*prompt, *written], [0] * len(prompt) + [1] * len(written)))
    return rounds


def demonstrate(
    tasks: Sequence[AnyTask], policy: PolicySettings, environments: Environments
) -> list[Trace]:
    """One resolved episode a task. Raises UserError for a task whose solution is not known, or does
    not resolve it."""
    dialect = _dialect(policy)
    players = Players(environments)
    jobs = [players.job(task, dialect, max_steps=len(_solution(task)) + SLACK) for task in tasks]
    replies = [_policy(job) for job in jobs]
    traces = run_lockstep(jobs, lambda waiting: [replies[job](need) for job, need in waiting])
    for task, trace in zip(tasks, traces, strict=True):
        if not trace.binary:
            what = f"its known solution earns {trace.resolved} of {trace.expected}"
            remedy = "`rods data check FILE` says why"
            raise UserError(what, where=f"task {task.id}", remedy=remedy)
    return traces


def _dialect(policy: PolicySettings) -> Dialect:
    return dialects.load(policy.dialect, folder=policy.model, family=policy.family)


def _solution(task: AnyTask) -> list[Call]:
    for kind in OPEN_TASKS:
        if (calls := kind.solution(task)) is not None:
            return list(calls)
    if isinstance(task, OpenTask) and (isinstance(task.goal, Checks) or not task.goal_calls):
        what = "nobody knows how it is done: it has neither ground truth nor a witness"
        remedy = "let a teacher play it (--teacher), or leave it out"
        raise UserError(what, where=f"task {task.id}", remedy=remedy)
    return list(task.goal_calls)


def _policy(job: Job) -> Callable[[NeedText], Reply]:
    task = job.task
    calls = _solution(job.task)
    if isinstance(task, OpenTask) and isinstance(task.user, Persona):
        return ReferencePolicy(job, calls).reply
    turns: Sequence[Sequence[Call]] = (calls, *([] for _ in task.texts[1:]))
    lacking = DONE
    if isinstance(task, Task):
        turns = task.calls
        lacking = LACK if task.type == "miss_func" else ASK

    def replies() -> Iterator[str]:
        for expected in turns:
            yield from (job.dialect.write([call]) for call in expected)
            yield job.dialect.answer(DONE if expected else lacking)

    plan = replies()
    return lambda need: Reply(next(plan))


def taught(folder: Path, tasks: Sequence[AnyTask], dialect: Dialect) -> list[Trace]:
    """The episodes of the evaluation in `folder` that belong to `tasks`, in the order in which they
    ended. Calls that a server has read are written as the policy is to write them, without the
    reasoning that it sent apart. Raises UserError for another dialect's, and for a folder that
    keeps no conversations."""
    try:
        evaluation = orjson.loads(read_regular(folder / "evaluation.json"))
        protocol = evaluation.get("protocol")
    except (OSError, ValueError) as error:
        remedy = "rods-eval run FOLDER --tasks FILE --split train --url ADDRESS --model NAME"
        raise UserError(f"is no evaluation ({error})", where=str(folder), remedy=remedy) from error
    if protocol != dialect.name:
        own = dialect.name
        what = f"was played in the dialect {protocol!r}, and the policy is to learn {own!r}"
        remedy = f"let the teacher play with --protocol {own}, or set policy.dialect"
        raise UserError(what, where=str(folder), remedy=remedy)
    wanted = {task.id for task in tasks}
    records = (record for record in read(folder / "episodes.jsonl") if record["kind"] == "episode")
    try:
        results = [json.loads(record["result"]) for record in records if record["task"] in wanted]
        traces = [Trace.from_json(result["trace"]) for result in results]
        served = protocol == "native" and evaluation["policy"]["kind"] == "endpoint"
        return [_written(trace, dialect) for trace in traces] if served else traces
    except (KeyError, TypeError, ValueError) as error:
        remedy = "play the tasks of a file (--tasks) with this version of rods-eval"
        raise UserError(
            f"keeps no conversations ({error})", where=str(folder), remedy=remedy
        ) from error


def _written(trace: Trace, dialect: Dialect) -> Trace:
    def own(message: Message) -> Message:
        if message.role != "assistant":
            return message
        parsed = Served().parse(message.content)
        answer = parsed.answer or ""
        text = dialect.write(parsed.calls) if parsed.calls else dialect.answer(answer)
        return replace(message, content=text)

    return replace(trace, messages=tuple(map(own, trace.messages)))


def fault(trace: Trace, least: float = 0.0, held: int = 0) -> Fault | None:
    """Why a teacher's episode is not imitated; None where it is. `least`: the share of its goal
    that it has to have earned, in [0, 1], beside anything at all; `held`: how many of its checks
    hold when nothing is done."""
    if any(step.error is not None for turn in trace.turns for step in turn.steps):
        return "format"
    if trace.end != "finished":
        return "unfinished"
    if trace.resolved <= held:
        return "impossible"
    return "below least" if trace.resolved < least * trace.expected else None
