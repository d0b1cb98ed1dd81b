"""Roles of stages I and II with one bad habit each, kept until the prompt brings what the paper's
recovery promises (004 Appendices E and F): guidance, another kind of function, a patch. After that
they answer well."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.daemon.authors.llm import later_roles
from tests.daemon.authors.llm.early_roles import Fields, fields_of, good, open_values, role, written


def _told(request: dict[str, Any], text: str) -> bool:
    return text in later_roles.question(request)


def speechless(request: dict[str, Any]) -> str:
    """No values, until the planner's next plan has been made after a `param_gen_failed`."""
    return good(request) if role(request) != "parameters" else "I cannot think of anything."


def long_winded(request: dict[str, Any]) -> str:
    """Plans functions of three calls, until it is told to use single tools."""
    if role(request) != "planner" or _told(request, "Use single tools only"):
        return good(request)
    fields = fields_of(request)
    return written(
        request,
        fields | {name: ["mail_lone_member"] * len(fields[name]) for name in _turns(fields)},
    )


def grand(request: dict[str, Any]) -> str:
    """Takes the calls of each turn together, as a function of its own."""
    if role(
        request
    ) != "planner" or "as one function of a higher level" not in later_roles.question(request):
        return good(request)
    fields = fields_of(request)
    many = [name for name in _turns(fields) if len(fields[name]) > 1]
    composed = [{"name": f"do_{name}", "calls": fields[name]} for name in many]
    return written(
        request, fields | {"functions": composed} | {name: [f"do_{name}"] for name in many}
    )


def overreaching(request: dict[str, Any]) -> str:
    """As `grand`, with a call more than there is room for."""
    answer = grand(request)
    return re.sub(r'"calls": \[("\w+")', r'"calls": [\1, \1', answer)


def inventive(request: dict[str, Any]) -> str:
    """Plans functions that nobody has, until it is told what failed."""
    if role(request) != "planner" or _told(request, "- func_sample_failed"):
        return good(request)
    fields = fields_of(request)
    return written(
        request,
        fields | {name: ["solve_everything"] * len(fields[name]) for name in _turns(fields)},
    )


def mumbling(request: dict[str, Any]) -> str:
    """Plans in no form, until it is told what failed."""
    spoken = role(request) != "planner" or _told(request, "- plan_unreadable")
    return good(request) if spoken else "I would rather not."


def repetitive(request: dict[str, Any]) -> str:
    """The same values wherever they can stand."""
    fields = fields_of(request)
    if role(request) == "parameters":
        may = open_values(request)
        fields["values"] = {
            key: min(one["one of"]) if "one of" in one else "same here" for key, one in may.items()
        }
    return written(request, fields)


def tongue_tied(request: dict[str, Any]) -> str:
    """Writes no request, until the plan has changed after a `query_gen_failed`."""
    return good(request) if role(request) != "query" else "<query></query>"


def hard_to_please(request: dict[str, Any]) -> str:
    if role(request) != "query_verification":
        return good(request)
    fields = fields_of(request)
    return written(
        request,
        {"verdict": ["misaligned" for _ in fields["verdict"]], "problem": "It asks for more."},
    )


def pleased_at_last(request: dict[str, Any]) -> str:
    """Rejects the first wordings, and takes those that were mended."""
    if role(request) == "query" and _told(request, "It asks for more."):
        return good(request).replace("Please see to", "Kindly see to")
    return good(request) if "Kindly" in later_roles.question(request) else hard_to_please(request)


def vague(request: dict[str, Any]) -> str:
    return (
        good(request)
        if role(request) != "query_verification"
        else "Well, that looks quite all right to me."
    )


def _turns(fields: Fields) -> list[str]:
    return [name for name in fields if name.startswith("turn_")]


def mending(request: dict[str, Any]) -> str:
    """A critic that first proposes what must be refused, one fault a try, then the right thing."""
    if role(request) != "config_patch":
        return good(request)
    state = json.loads(
        re.findall(
            r"^The initial state, as JSON:\n(.*)$", later_roles.question(request), re.MULTILINE
        )[0]
    )
    file = next(iter(state["files"]))
    proposals = [
        ("", {"fies": {"x": 1}}),
        ("unknown_class", {"files": {file: {"lockd": False}}}),
        ("unknown_field", {"files": {file: {"locked": "no"}}}),
        ("changed_type", {"files": "a few files"}),
        ("clobbers", {"files": {file: {"locked": False}}}),
    ]
    said = str(request["messages"][-1]["content"]) if len(request["messages"]) > 2 else ""
    patch = next(proposal for word, proposal in reversed(proposals) if word in said)
    return written(request, {"patch": patch})


def fond_of_parties(request: dict[str, Any]) -> str:
    """Takes the mail about the party wherever it is offered."""
    fields = fields_of(request)
    if role(request) == "parameters":
        may = open_values(request)
        fields["values"] |= {
            key: "party" for key, one in may.items() if "party" in one.get("one of", ())
        }
    return written(request, fields)


def inviting(request: dict[str, Any]) -> str:
    """Gives whoever is new the first address that the invitation may have, too."""
    fields = fields_of(request)
    may = open_values(request)
    guests = may["2.1.address"]["one of"]
    shared = next(value for value in may["1.2.address"]["one of"] if value in guests)
    fields["values"] |= {"1.2.address": shared, "2.1.address": shared}
    return written(request, fields)


def joining(request: dict[str, Any]) -> str:
    """Takes the team "sales" wherever it is offered."""
    fields = fields_of(request)
    if role(request) == "parameters":
        may = open_values(request)
        fields["values"] |= {
            key: "sales" for key, one in may.items() if "sales" in one.get("one of", ())
        }
    return written(request, fields)


def referring(request: dict[str, Any]) -> str:
    """Takes what another value will be wherever that is offered."""
    fields = fields_of(request)
    if role(request) == "parameters":
        for key, one in open_values(request).items():
            for offered in one.get("one of", ()):
                if str(offered).startswith("the value of"):
                    fields["values"][key] = offered
    return written(request, fields)


def aloof(request: dict[str, Any]) -> str:
    """Plans tools of which none can use what another returns, whatever it is told."""
    if role(request) != "planner":
        return good(request)
    fields = fields_of(request)
    asked = later_roles.question(request)
    places = dict(re.findall(r"^turn (\d+): (\[\[.*\]\])$", asked, re.MULTILINE))
    for number, line in places.items():
        options = json.loads(line)
        fields[f"turn_{number}"] = [
            next((one for one in few if one in MUTE), few[0]) for few in options
        ]
    return written(request, fields)


MUTE = ("share_file", "lock_file", "write_file", "remove_contact")


def _decorating(state: Any) -> Any:
    def answer(request: dict[str, Any]) -> str:
        return written(
            request, {"state": state} if role(request) == "initial_state" else fields_of(request)
        )

    return answer


redecorating = _decorating(
    {"notes": {"101": {"title": "attic"}, "104": {"title": "cellar", "body": "empty it"}}}
)
clearing = _decorating(
    {"notes": {"102": None, "103": None, "104": {"title": "cellar", "body": "empty it"}}}
)
# what is no object, too
emptying = _decorating({"notes": {"101": {"title": "attic"}}, "counters": {"visits": None}})
remodelling = _decorating({"notes": {"101": {"color": "red"}}, "shelves": {}})
idle = _decorating({})
repeating = _decorating({"notes": {"101": {"title": "garden"}}})
weekend = _decorating({"visits": {"11": {"day": "Sunday"}}})
# keys are numbers
forbidden = _decorating({"notes": {"cellar": {"title": "cellar", "body": "empty it"}}})


def at_a_loss(request: dict[str, Any]) -> str:
    """A critic that sees nothing in the state that would mend the call."""
    return written(
        request, {"patch": {}} if role(request) == "config_patch" else fields_of(request)
    )


def storied(request: dict[str, Any]) -> str:
    """A critic that brings what its story needs: an entry, a text, somebody to share with."""
    if role(request) != "config_patch":
        return good(request)
    memo = {"folder": "old", "text": "needs work", "locked": False, "shared": []}
    patch = {
        "today": "friday",
        "files": {
            "memo": {"locked": False, "text": "the choir sings", "shared": ["box7"]},
            "songs": memo,
        },
    }
    return written(request, {"patch": patch})


def zealous(request: dict[str, Any]) -> str:
    """A critic that also does what the user is going to ask for, until it is told."""
    if role(request) != "config_patch":
        return good(request)
    patch: dict[str, Any] = {"files": {"memo": {"locked": False}}}
    if len(request["messages"]) == 2:
        patch["contacts"] = {"paul": {"team": "legal"}}
    return written(request, {"patch": patch})


def lavish(request: dict[str, Any]) -> str:
    """Invents amounts that nobody has."""
    fields = fields_of(request)
    if role(request) == "parameters":
        may = open_values(request)
        fields["values"] |= {
            key: 99_999 for key, one in may.items() if one.get("any", {}).get("type") == "integer"
        }
    return written(request, fields)


def insistent(request: dict[str, Any]) -> str:
    """Plans a function again wherever it fits, or where it does not: the first name, as often as
    there are places."""
    if role(request) != "planner":
        return good(request)
    fields = fields_of(request)
    return written(
        request, fields | {name: fields[name][:1] * len(fields[name]) for name in _turns(fields)}
    )


def clumsy(request: dict[str, Any]) -> str:
    """Good answers, until the judge finds the words clumsy."""
    return later_roles.naturalness_fails(request) if role(request) == "later" else good(request)
