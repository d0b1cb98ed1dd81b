"""How a language model is asked: a template filled, sent with the schema of its answer, read
strictly, and asked again.

`AnswerForm` declares the fields of an answer with their schemas. Constrained, an answer is one JSON
object that the server holds to `AnswerForm.schema()`. Tagged, each field stands between tags of its
name: texts as they are, a list of things of one kind as one pair of tags an element, the rest as
JSON. `read` gives the same dictionary of either. It is strict about what is said, and lenient about
the form in which one answer can stand (docs/endpoints.md has the table): two that differ are
refused. Thinking goes into `reason`; what a model thinks before its answer is dropped. A model that
judges quotes what it judges: what has other text around it, and chooses as the question's own
material does somewhere, is no answer (`Question.judges`).

How much room a question has and how its answer is sampled is its role's (`[roles]`,
`[operation.writers]`): the stage of the call. A model whose thoughts took all the room is given
more (`thinking_tokens`). One `Questioner` speaks for one account, which pays, and its backbone
answers every call. What a model does wrong ends, after a few tries, as `Unanswered`, with what the
model had written. What the machinery does wrong (`EndpointError`, `BudgetSpent`) passes through: it
is nobody's failure."""

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from rods import model_json
from rods.analysis.containment import values_in
from rods.analysis.schemas import Checker
from rods.canonical import JsonMapping, JsonObject, canonical, frozen, only, without
from rods.config import Roles
from rods.faults import ErrorType, Finish
from rods.llm import Account, Client, Completion, Request
from rods.llm.wire import THOUGHTS
from rods.model_roles import Role, RoleTables
from rods.prompts import Template, load

T = TypeVar("T")
Schema = JsonMapping
LONGEST = 100_000  # characters of an answer
SHOWN = 1_000  # characters of a failed answer that are shown to the model again
QUOTED = 120  # characters of one that are quoted where it is no answer at all
WRAPPED = 3  # objects and lists that may stand around an answer
# ends of an answer that is not read
UNREAD: Mapping[Finish, str] = {
    "length": "was cut short",
    "context": "found no room: the prompt is too long",
    "aborted": "was aborted by the server",
    "filtered": "was withheld",
}
_REASON = re.compile(r"<reason>(.*?)</reason>", re.DOTALL)
_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")
_WORD = re.compile(r"[^\W_]+")
REPEATED = (
    "what is judged says the same of itself, so with other text around it this is no answer; "
    "write your own answer and nothing else"
)


class Unreadable(ValueError):
    """An answer without the demanded form or meaning. The text says to the model what was wrong;
    `error` is the type of the failure when no further try helps, instead of the one that the caller
    named; `functions` take part in it."""

    def __init__(
        self, text: str, error: ErrorType | None = None, functions: Sequence[str] = ()
    ) -> None:
        super().__init__(text)
        self.error = error
        self.functions = tuple(functions)


@frozen
class AnswerForm:
    """`fields` in the order in which they are written; `optional` ones may be left out. The schemas
    of `guiding` ones bind a constrained answer only: whoever reads the answer says better what is
    wrong with them. `bound`, if there is one: a field, and the field (an enum) and value with which
    it has to stand; with others it need not. `judged`: the `words` of what the answer judges."""

    fields: Mapping[str, Schema]
    optional: frozenset[str] = frozenset()
    guiding: frozenset[str] = frozenset()
    bound: tuple[str, str, str] | None = None
    judged: str = ""

    def schema(self, reason: int) -> JsonObject:
        """JSON Schema of the constrained answer, with so many characters of thinking before the
        fields."""
        fields = {"reason": {"type": "string", "maxLength": reason}, **self.fields}
        if self.bound is None:
            return obj(fields, optional=self.optional)
        name, field, value = self.bound
        others = [other for other in self.fields[field]["enum"] if other != value]
        without = {**fields, field: {"type": "string", "enum": others}}
        del without[name]
        forms = ({**fields, field: {"const": value}}, without)
        return {"anyOf": [obj(form, optional=self.optional) for form in forms]}

    def read_completion(self, completion: Completion, *, constrained: bool) -> JsonObject:
        """The fields of an answer, wherever its server has put it (`answer_of`). One that was cut
        is read if its JSON is whole. Raises Unreadable."""
        finish = completion.finish
        text = answer_of(completion)
        # cut behind its last bracket, if at all
        whole = finish == "length" and constrained and text.rstrip("`\n ").endswith(("}", "]"))
        if finish in UNREAD and not whole:
            raise Unreadable(f"the answer {UNREAD[finish]}{_excerpt(text)}")
        if not text:
            raise Unreadable("the answer is empty")
        return self.read(text, constrained=constrained)

    def read(self, text: str, *, constrained: bool) -> JsonObject:
        """The fields of an answer, and its `reason` ("" when there is none). Raises Unreadable."""
        text = text[thoughts.end() :] if (thoughts := THOUGHTS.match(text)) else text
        if len(text) > LONGEST:
            raise Unreadable(f"the answer has {len(text)} characters, at most {LONGEST} are read")
        tagged = "{" not in text or any(f"{name}>" in text for name in ("reason", *self.fields))
        if tagged and not constrained:
            return self._checked(self._in_tags(text))
        try:
            values = model_json.values(text)
        except ValueError as error:
            why = f": {error}" if "{" in text or "[" in text else _excerpt(text)
            raise Unreadable(f"no JSON object could be read{why}") from None
        alone = model_json.is_json(text.strip("`\n ").removeprefix("json"))
        return self._among(values, alone)

    def _among(self, values: list[Any], alone: bool) -> JsonObject:
        """The one answer that is among `values`, or in objects, lists and texts of JSON that wrap
        it. `alone`: no other text stands around them."""
        fault: Unreadable | None = None
        level = values
        for depth in range(WRAPPED + 1):
            answers: dict[bytes, JsonObject] = {}
            inner: list[Any] = []
            for value in level:
                named = isinstance(value, dict) and value.keys() & self.fields.keys()
                if named:
                    try:
                        if (depth or not alone) and self._quoted(value):
                            raise Unreadable(REPEATED)
                        answer = self._checked(value)
                        answers[canonical(without(answer, "reason"))] = answer
                    except Unreadable as unreadable:
                        fault = unreadable
                if not named or len(value) == 1:
                    inner += _wrapped(value)
            if len(answers) > 1:
                raise Unreadable(f"{len(answers)} different answers stand there; give one")
            if answers:
                return answers.popitem()[1]
            level = inner
        if fault is not None:
            raise fault
        if any(isinstance(value, dict) for value in values):
            return self._checked({})
        raise Unreadable("the answer is not a JSON object")

    def _quoted(self, answer: JsonMapping) -> bool:
        """Whether what is judged has every choice of `answer` behind its name, in whatever form."""
        choices = [
            words(f"{name} {next(iter(values_in(answer[name])), '')}")
            for name, schema in self.fields.items()
            if name in answer and (schema.get("type") != "string" or "enum" in schema)
        ]
        return choices != [] and all(choice in self.judged for choice in choices)

    def _checked(self, answer: JsonMapping) -> JsonObject:
        """The fields in `answer`, texts that their schemas refuse as they are meant. Raises
        Unreadable."""
        reason = answer.get("reason")
        answer = {"reason": reason if isinstance(reason, str) else "", **only(answer, self.fields)}
        bound, field, value = self.bound or ("", "", "")
        for name, schema in self.fields.items():
            if name not in answer:
                if name == bound and answer.get(field) == value:
                    raise Unreadable(f'{name} is missing, which "{value}" needs')
                if name not in self.optional and name != bound:
                    raise Unreadable(f"{name} is missing")
                continue
            checker = Checker(schema)
            answer[name] = checker.mended(answer[name])
            if name not in self.guiding and (what := checker.fault(answer[name])):
                raise Unreadable(f"{name} {what}")
        return answer

    def _in_tags(self, text: str) -> JsonObject:
        # a tag behind it has no end to be looked for
        closed = text.rfind("</reason>") + len("</reason>")
        reasons = _REASON.findall(text, 0, closed)
        text = _REASON.sub("", text[:closed]) + text[closed:]
        answer: JsonObject = {"reason": " ".join(reasons).strip()}
        for name, schema in self.fields.items():
            parts = _between_tags(name, text)
            if schema.get("type") == "array" and "items" in schema:
                answer[name] = [_value(name, part, schema["items"]) for part in parts]
            elif len(parts) > 1:
                raise Unreadable(f"<{name}> stands there {len(parts)} times")
            elif parts:
                answer[name] = _value(name, parts[0], schema)
        beside = re.sub(rf"<({'|'.join(self.fields)})>.*?</\1>", "", text, flags=re.DOTALL)
        if beside.strip("`\n ") and self._quoted(answer):
            raise Unreadable(REPEATED)
        return answer


def answer_of(completion: Completion) -> str:
    """What a model has answered: its text and the arguments of its calls, or else what it thought
    before, unless it was cut over that."""
    texts = [completion.text, *(call.arguments for call in completion.tool_calls)]
    if not any(map(str.strip, texts)) and completion.finish != "length":
        texts += completion.reasoning.values()
    return "\n".join(texts).strip()


def read_forms(file: Path) -> dict[str, AnswerForm]:
    """The forms in a TOML file by their names, such as those of templates: a table each, as
    `AnswerForm`."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: AnswerForm(
            table["fields"],
            frozenset(table.get("optional", ())),
            frozenset(table.get("guiding", ())),
        )
        for name, table in tables.items()
    }


def one_of(*texts: str) -> Schema:
    """The schema of one of these texts."""
    return {"type": "string", "enum": list(texts)}


def obj(fields: Mapping[str, Schema], optional: frozenset[str] = frozenset()) -> JsonObject:
    """The schema of an object with exactly these fields."""
    required = [name for name in fields if name not in optional]
    return {
        "type": "object",
        "properties": dict(fields),
        "required": required,
        "additionalProperties": False,
    }


def _between_tags(name: str, text: str) -> list[str]:
    """The contents of all pairs of tags called `name`. Raises Unreadable when they are not
    pairs."""
    opened = f"<{name}>"
    closed = f"</{name}>"
    parts = []
    for piece in text.split(opened)[1:]:
        inside, end, _ = piece.partition(closed)
        if not end:
            raise Unreadable(f"{opened} is not closed")
        parts.append(inside.strip())
    if text.count(closed) != len(parts):
        raise Unreadable(f"{closed} without {opened}")
    return parts


def _wrapped(value: Any) -> Iterable[Any]:
    """What stands in a JSON value, or in a text of JSON."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            return model_json.values(value)
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def words(text: str) -> str:
    """The words of `text` with a blank before and behind each, whatever JSON has escaped in it."""
    plain = _ESCAPED.sub(lambda found: chr(int(found[1] or "20", 16)), text)
    return f" {' '.join(_WORD.findall(plain.casefold()))} "


def _excerpt(text: str) -> str:
    """How `text` begins, behind a colon; empty where there is none."""
    return f": {text.strip()[:QUOTED]!r}" if text.strip() else ""


def _value(name: str, text: str, schema: Schema) -> Any:
    if schema.get("type") == "string":
        return text
    try:
        return model_json.find(text, Checker(schema).fits)
    except ValueError as error:
        raise Unreadable(f"<{name}> does not hold JSON: {error}") from None


class Unanswered(Exception):
    """No try gave an answer that could be used. `said` is the last one, `error` the type that its
    reader named, if any, `functions` those that any try was refused for."""

    def __init__(
        self, why: str, said: str, error: ErrorType | None, functions: Iterable[str] = ()
    ) -> None:
        super().__init__(why)
        self.why = why
        self.said = said
        self.error = error
        self.functions = tuple(functions)


@frozen
class Question(Generic[T]):
    """A question to a model. `read` makes of the fields of its answer, which has the form `form`,
    what is meant; it may raise Unreadable for what has the form but no sense. `check` then looks at
    what has to be computed, and may raise it too. `sections` of the template are added to the
    question; `mend` is the one with which a template that has a field `problem` is asked anew.
    `stage` names the role, where it has not the template's name; `parts` are tokens that its answer
    needs beside the role's own. `judges`: the answer judges what the question shows, which may
    hold a forged one."""

    template: str
    fields: Mapping[str, str]
    form: AnswerForm
    read: Callable[[JsonObject], T]
    check: Callable[[T], Awaitable[None]] | None = None
    sections: Sequence[str] = ()
    mend: str = ""
    stage: str = ""
    parts: int = 0
    judges: bool = False


@dataclass(slots=True)
class Questioner:
    """`backbone` names the endpoint that answers every call of this account. `hashes` holds the
    templates used so far, by name. `tries`: how often one question is asked until its answer can be
    read. `feedback`: whether the next try is shown the failed answer and what was wrong with it;
    blind, the question is asked anew. `tell` gets what is done between questions where that takes
    long, and "" once it is done; from any thread."""

    client: Client
    backbone: str
    account: Account
    tries: int = 3
    feedback: bool = True
    roles: RoleTables = field(default_factory=Roles)
    hashes: dict[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda line: None

    async def ask(self, question: Question[T], random_seed: Callable[[int], int]) -> T:
        """What the question's `read` makes of the answer's fields; `random_seed` gives each try its
        own.

        The first try is constrained where the endpoint can do that. An answer that was cut short
        leads to the tagged form; one that could not be read is shown to the model with what was
        wrong, and it is asked again; a model that only repeats itself is asked anew, and so is
        every one without `feedback`, and one with `mend`. A model that is cut while it still thinks
        is asked the same with more room, which is no try. Raises Unanswered when no try succeeds,
        EndpointError, BudgetSpent."""
        template = question.template
        mend = question.mend
        stage = question.stage or template
        loaded = self.template(template)
        # whether answers are still believed to be held to a schema
        constrained = self.client.constrains(self.backbone)
        exchange: list[dict[str, str]] = []
        why = ""
        answer = ""
        kind: ErrorType | None = None
        functions: dict[str, None] = {}
        role: Role = getattr(self.roles, stage)
        for number in range(self.tries):
            rendered = loaded.render_sections(
                **{**question.fields, **({"problem": why} if mend else {})}
            )
            added = (*question.sections, mend) if mend and why else question.sections
            shown = "\n\n".join(rendered[name] for name in ("user", *added))
            form = replace(question.form, judged=words(shown) if question.judges else "")
            way = "constrained" if constrained else "tagged"
            user = {"role": "user", "content": f"{shown}\n\n{rendered[way]}"}
            request = Request(
                stage,
                [{"role": "system", "content": rendered["system"]}, user, *exchange],
                schema=form.schema(role.reason) if constrained else None,
                max_tokens=role.tokens + question.parts,
                temperature=role.temperature,
                top_p=role.top_p,
                thinking={"on": True, "off": False}.get(role.thinking),
                random_seed=random_seed(number),
                backbone=self.backbone,
                template=f"{template}@{loaded.hash}",
                account=self.account,
            )
            completion = await self._completion(request, form)
            repeated = completion.text == answer
            answer = completion.text
            try:
                meant = question.read(form.read_completion(completion, constrained=constrained))
                if question.check is not None:
                    await question.check(meant)
                return meant
            except Unreadable as unreadable:
                why = str(unreadable)
                kind = unreadable.error
                functions |= dict.fromkeys(unreadable.functions)
            if completion.finish == "context" and not exchange:
                break  # nothing shorter can be asked
            # a grammar can loop
            constrained = constrained and completion.constrained and completion.finish != "length"
            # one that sees its answer may repeat it
            anew = not self.feedback or repeated or completion.finish in ("length", "context")
            exchange = []
            if not anew and not mend:
                complaint = self.template("again").render(problem=why)
                excerpt = {"role": "assistant", "content": answer[:SHOWN] or "(nothing)"}
                exchange = [excerpt, {"role": "user", "content": complaint}]
        raise Unanswered(why, answer, kind, functions)

    async def _completion(self, request: Request, form: AnswerForm) -> Completion:
        """The answer; a model that thinks is given room for that. Whether one does is found out
        where an answer is cut: by its thoughts, or, where it writes no tag at all, by what comes
        with more room."""
        thinks = self.client.thinks
        roomy = replace(
            request, max_tokens=request.max_tokens + self.client.thinking_tokens(self.backbone)
        )
        if request.thinking or thinks.get(self.backbone):
            return await self.client.complete(roomy)
        completion = await self.client.complete(request)
        tagged = any(f"<{name}>" in completion.text for name in ("reason", *form.fields))
        mute = not completion.constrained and not tagged
        if completion.finish == "length" and (
            completion.thought or (mute and self.backbone not in thinks)
        ):
            completion = await self.client.complete(roomy)
            thinks[self.backbone] = completion.thought
        return completion

    def template(self, name: str) -> Template:
        """The template, which counts as used from now on."""
        loaded = load(name)
        self.hashes[name] = loaded.hash
        return loaded


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all `work`, done at the same time. Raises what the first that fails raises, by
    itself; what the machinery did wrong before what a model did."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as several:
        raise min(several.exceptions, key=lambda error: isinstance(error, Unanswered)) from None
    return [task.result() for task in tasks]
