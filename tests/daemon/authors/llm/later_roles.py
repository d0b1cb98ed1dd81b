"""What the stub says in tests of stages III to V: good answers read off the prompts, and roles with
one habit each.

A role is recognised by its system message and by words of its question; `good` answers all of them,
constrained or in tags as it is asked. A habit is a function `(role, request) -> fields or text`
that overrides some answers.
"""

from __future__ import annotations

import json
import re
from typing import Any

Fields = dict[str, Any]
PASSED: Fields = {
    **dict.fromkeys(("alignment", "consistency", "coherence", "naturalness", "structure"), "pass"),
    "issue": "",
}


def role(request: dict[str, Any]) -> str:
    """The template that a request was made of."""
    question = request["messages"][1]["content"]
    marks = {
        "Write what the user says, all": "rewrite_turns",
        "Does the sample pass": "judge_quality",
        "A judge has rejected": "refine_classify",
        "anew:": "refine_rewrite",
        "a function that the request needs is taken away": "miss_func",
        "or any part of it, be served": "miss_func_verify",
        "leaves one needed value open": "miss_param",
        "know, or can it find out": "miss_param_verify",
    }
    return next(name for mark, name in marks.items() if mark in question)


def question(request: dict[str, Any]) -> str:
    return str(request["messages"][1]["content"])


def must_say(text: str) -> list[list[Any]]:
    """What must be said or referred to in each turn of a prompt."""
    lines = re.findall(
        r"^must say: (.*)(?:\nsay again, or refer to: (.*))?(?:\nnever say: .*)?"
        r"(?:\nrefer to: (.*))?$",
        text,
        re.MULTILINE,
    )
    return [
        [value for part in turn if not part.startswith("(") for value in json.loads(f"[{part}]")]
        for turn in lines
    ]


def spoken(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(spoken, value))
    if isinstance(value, dict):
        return " and ".join(map(spoken, value.values()))
    return str(value)


def sentence(values: list[Any], lead: str = "Please see to this matter") -> str:
    return f"{lead} with {', then '.join(map(spoken, values))}." if values else f"{lead}."


def doings(asked: str) -> list[str]:
    """For each turn that a prompt shows, what its calls do, in the words of their documents: what a
    user asks for."""
    does = dict(re.findall(r"^(\w+): (.*?)\.?$", asked, re.MULTILINE))
    turns = re.split(r"^must say: .*$", asked, flags=re.MULTILINE)[:-1]
    names = [dict.fromkeys(re.findall(r'"call":"(\w+)"', turn)) for turn in turns]
    return [
        "; ".join(
            does.get(name, re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", name)).lower() for name in turn
        )
        for turn in names
    ]


def good_fields(request: dict[str, Any]) -> Fields:
    asked = question(request)
    name = role(request)
    if name == "rewrite_turns":
        asking = zip(doings(asked), must_say(asked), strict=True)
        matters = (
            (re.sub(r"\b(check|find|look|search)\b", "see", doing), values)
            for doing, values in asking
        )
        return {
            "queries": [
                sentence(values, f"Please see to this matter ({doing})")
                for doing, values in matters
            ]
        }
    if name == "refine_rewrite":
        return {
            "query": sentence(must_say(asked)[0], f"Kindly look after this ({doings(asked)[0]})")
        }
    if name == "judge_quality":
        return PASSED | ({"fault": "none", "turn": 0} if "gt_unfixable" in asked else {})
    if name == "refine_classify":
        return {"fault": "query_fixable", "turn": 1}
    if name == "miss_func":
        choices = re.findall(r"^Choose what to take away, one of these: (.*)$", asked, re.MULTILINE)
        return {"function": choices[0].split(", ")[0]}
    if name == "miss_param":
        return left_open(asked)
    return {"served" if name == "miss_func_verify" else "known": "no"}


def left_open(asked: str, choice: int = 1) -> Fields:
    """The call that takes the value, asked for with that value left open; and the sentence that
    supplies it, with the turn's other calls."""
    lines = re.findall(r"^\d+\. .*?: (.*)$", asked, re.MULTILINE)
    value = json.loads(lines[choice - 1])
    part = asked.partition("The calls that serve it:")[2].partition("What these functions do:")[0]
    calls = [json.loads(line) for line in part.splitlines() if line.startswith('{"call"')]
    own = next((call for call in calls if value in call["arguments"].values()), None)
    query = re.findall(r"^The request of turn \d+:\n(.*)$", asked, re.MULTILINE)[0]
    vague = re.sub(
        rf"(?<!\w){re.escape(spoken(value))}(?!\w)",
        "something that I know",
        query,
        flags=re.IGNORECASE,
    )
    if own is None or len(calls) == 1:
        return {"choice": choice, "request": vague, "supply": f"It is {spoken(value)}."}
    does = dict(re.findall(r"^(\w+): (.*?)\.?$", asked, re.MULTILINE))
    doing, rest = (
        "; ".join(
            dict.fromkeys(
                does.get(call["call"], call["call"]).lower()
                for call in calls
                if (call is own) == mine
            )
        )
        for mine in (True, False)
    )
    said = re.findall(r"(?: with |, then )((?:(?!, then ).)+?)(?=, then |\.$)", vague)
    others = [each for each in said if each != "something that I know"]
    return {
        "choice": choice,
        "request": f"Please see to this matter ({doing}) with something that I know.",
        "supply": f"It is {spoken(value)}. "
        f"{sentence(others, f'Please see to this matter ({rest})')}",
    }


def written(request: dict[str, Any], fields: Fields) -> str:
    """The fields as the request wants them."""
    if "response_format" in request:
        return json.dumps({"reason": "because", **fields})
    parts = ["<reason>because</reason>"]
    for name, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            parts.append(f"<{name}>{one if isinstance(one, str) else json.dumps(one)}</{name}>")
    return "\n".join(parts)


def good(request: dict[str, Any]) -> str:
    return written(request, good_fields(request))


def seeking(request: dict[str, Any]) -> str:
    """A rewriter in whose requests look-ups are asked for by themselves."""
    fields = good_fields(request)
    if role(request) == "rewrite_turns":
        asking = zip(doings(question(request)), must_say(question(request)), strict=True)
        fields = {
            "queries": [
                sentence(values, f"Please look after this ({doing})") for doing, values in asking
            ]
        }
    return written(request, fields)


def _first(request: dict[str, Any]) -> bool:
    """Whether the model has not been told yet that its answer was wrong."""
    return len(request["messages"]) == 2


def _judge_failing(criterion: str, fault: str, turn: int) -> Any:
    """A judge that fails the first wordings by one criterion, and passes what was reworded."""

    def answer(request: dict[str, Any]) -> str:
        fields = good_fields(request)
        if role(request) == "judge_quality" and "Kindly" not in question(request):
            fields = fields | {criterion: "fail", "issue": f"{criterion} is poor"}
            if "fault" in fields:
                fields |= {"fault": fault, "turn": turn}
        if role(request) == "refine_classify":
            fields = {"fault": fault, "turn": turn}
        return written(request, fields)

    return answer


alignment_fails = _judge_failing("alignment", "query_fixable", 2)
consistency_fails = _judge_failing("consistency", "gt_unfixable", 1)
coherence_fails = _judge_failing("coherence", "gt_unfixable", 2)
naturalness_fails = _judge_failing("naturalness", "query_fixable", 1)
structure_fails = _judge_failing("structure", "gt_unfixable", 1)


def never_pleased(request: dict[str, Any]) -> str:
    """A judge who finds every wording clumsy."""
    fields = good_fields(request)
    if role(request) == "judge_quality":
        fields = fields | {"naturalness": "fail", "issue": "clumsy"}
        fields |= {"fault": "query_fixable", "turn": 1} if "fault" in fields else {}
    return written(request, fields)


def forgetful(request: dict[str, Any]) -> str:
    """A rewriter that drops all values until it is told."""
    fields = good_fields(request)
    if role(request) == "rewrite_turns" and _first(request):
        fields = {"queries": ["Please do what is due." for _ in fields["queries"]]}
    return written(request, fields)


def stubbornly_forgetful(request: dict[str, Any]) -> str:
    fields = good_fields(request)
    if role(request) == "rewrite_turns":
        fields = {"queries": ["Please do what is due." for _ in fields["queries"]]}
    return written(request, fields)


def leaking(request: dict[str, Any]) -> str:
    """A rewriter that names a function, whatever it is told."""
    fields = good_fields(request)
    if role(request) == "rewrite_turns":
        named = re.findall(r'"call":"(\w+)"', question(request))[0]
        fields = {"queries": [f"{text[:-1]} through {named}." for text in fields["queries"]]}
    return written(request, fields)


def contradictory(request: dict[str, Any]) -> str:
    """A judge whose class of fault belies its verdicts."""
    fields = good_fields(request)
    if role(request) == "judge_quality":
        fields = fields | {"fault": "gt_unfixable", "turn": 1}
    return written(request, fields)


def out_of_range(request: dict[str, Any]) -> str:
    fields = good_fields(request)
    if role(request) == "judge_quality":
        fields = fields | {"alignment": "fail", "issue": "x", "fault": "query_fixable", "turn": 99}
    return written(request, fields)


def tagless(request: dict[str, Any]) -> str:
    """A judge that just talks."""
    return (
        "I think that this is rather good." if role(request) == "judge_quality" else good(request)
    )


def chatty(request: dict[str, Any]) -> str:
    """Prose around every answer; here the first judge's also has a wrong type."""
    text = good(request)
    if role(request) == "judge_quality" and _first(request):
        text = text.replace('"turn": 0', '"turn": "none"')
    return f"Sure, here it is: {text}\nLet me know if there is more."


def servable(request: dict[str, Any]) -> str:
    """A verifier that finds a way around whatever is missing."""
    fields = good_fields(request)
    if role(request) in ("miss_func_verify", "miss_param_verify"):
        fields = dict.fromkeys(fields, "yes")
    return written(request, fields)


def telling(request: dict[str, Any]) -> str:
    """One that leaves nothing open: the vague request still says the value."""
    fields = good_fields(request)
    if role(request) == "miss_param":
        query = re.findall(r"^The request of turn \d+:\n(.*)$", question(request), re.MULTILINE)[0]
        fields = fields | {"request": query}
    return written(request, fields)


def asking_at_once(request: dict[str, Any]) -> str:
    """One that asks for the whole turn before the value is supplied."""
    fields = good_fields(request)
    if role(request) == "miss_param":
        said = fields["supply"].partition(". ")[0].removeprefix("It is ").rstrip(".")
        query = re.findall(r"^The request of turn \d+:\n(.*)$", question(request), re.MULTILINE)[0]
        vague = re.sub(
            rf"(?<!\w){re.escape(said)}(?!\w)", "something that I know", query, flags=re.IGNORECASE
        )
        fields = fields | {"request": vague, "supply": f"It is {said}."}
    return written(request, fields)


def dropping(request: dict[str, Any]) -> str:
    """One that forgets all other values of the request with the one that is left open."""
    fields = good_fields(request)
    if role(request) == "miss_param":
        fields = fields | {"request": "Please do it for me."}
    return written(request, fields)


def comparing(request: dict[str, Any]) -> str:
    """A rewriter that wants to see how each turn was worded for itself."""
    seen = question(request).count("worded for itself: ") == len(must_say(question(request)))
    return good(request) if role(request) != "rewrite_turns" or seen else "There are no wordings."


def few(request: dict[str, Any]) -> str:
    """A rewriter that leaves a turn out."""
    fields = good_fields(request)
    return written(
        request, {"queries": fields["queries"][1:]} if role(request) == "rewrite_turns" else fields
    )


def no_refusals(request: dict[str, Any]) -> str:
    """A judge to whom nothing is out of reach, so that no turn should be without calls."""
    fields = good_fields(request)
    if role(request) == "judge_quality" and "of the type miss_func" in question(request):
        vain = re.search(r"Turn (\d+):\n(?:.*\n)?\(no call is right", question(request))
        assert vain is not None
        fields = fields | {
            "structure": "fail",
            "issue": "it can be done",
            "fault": "query_fixable",
            "turn": int(vain[1]),
        }
    return written(request, fields)


def searches_elsewhere(request: dict[str, Any]) -> str:
    """A verifier who sees another way to search the mail."""
    fields = good_fields(request)
    if role(request) == "miss_func_verify" and "search_mail: " not in question(request):
        fields = {"served": "yes"}
    return written(request, fields)


def telltale(request: dict[str, Any]) -> str:
    """A rewriter that says what calls are to find out, until it is told."""
    fields = good_fields(request)
    if role(request) == "rewrite_turns" and _first(request):
        turns = question(request).split("must say: ")[1:]
        hidden = [re.findall(r"^never say: (.*)$", turn, re.MULTILINE) for turn in turns]
        values = [json.loads(f"[{lines[0]}]") if lines else [] for lines in hidden]
        fields = {
            "queries": [
                f"{text[:-1]}, by which I mean {' and '.join(map(spoken, told))}." if told else text
                for text, told in zip(fields["queries"], values, strict=True)
            ]
        }
    return written(request, fields)


def inventive(request: dict[str, Any], turns: int = 1) -> str:
    """A rewriter that asks for something that no call does, in the first turns."""
    fields = good_fields(request)
    if role(request) == "rewrite_turns":
        texts = fields["queries"]
        fields = {
            "queries": [
                f"{text} Mind number {77123 + turn}." for turn, text in enumerate(texts[:turns])
            ]
            + texts[turns:]
        }
    return written(request, fields)


def twice_inventive(request: dict[str, Any]) -> str:
    return inventive(request, 2)
