"""Mail: an inbox with ids that must be searched for, and what was sent."""

from __future__ import annotations

from typing import Any

from worlds.desk.contacts import ADDRESS
from worlds.desk.registry import MAX_ENTRIES, Refused, State, text, tool

MAIL = text("id, as m12")
SUBJECT = text("subject")
TEXT = text("what it says", longest=60)


@tool("mail", "Search the inbox by subject.", subject=SUBJECT)
def search_mail(state: State, subject: str) -> dict[str, Any]:
    inbox = state["mail"]["inbox"]
    return {"mails": sorted(number for number, mail in inbox.items() if mail["subject"] == subject)}


@tool("mail", "Read a mail: its sender and text.", mail=MAIL)
def read_mail(state: State, mail: str) -> dict[str, Any]:
    found = _mail(state, mail)
    return {"sender": found["sender"], "text": found["text"]}


@tool("mail", "Send a new mail.", address=ADDRESS, subject=SUBJECT, text=TEXT)
def send_mail(state: State, address: str, subject: str, text: str) -> dict[str, Any]:
    return _sent(state, {"address": address, "subject": subject, "text": text})


@tool("mail", "Answer the sender of a mail.", mail=MAIL, text=TEXT)
def reply_mail(state: State, mail: str, text: str) -> dict[str, Any]:
    found = _mail(state, mail)
    return _sent(state, {"address": found["sender"], "subject": found["subject"], "text": text})


@tool("mail", "Pass a mail on to an address.", mail=MAIL, address=ADDRESS)
def forward_mail(state: State, mail: str, address: str) -> dict[str, Any]:
    found = _mail(state, mail)
    return _sent(state, {"address": address, "subject": found["subject"], "text": found["text"]})


@tool("mail", "Mark a mail as important.", mail=MAIL)
def flag_mail(state: State, mail: str) -> dict[str, Any]:
    found = _mail(state, mail)
    if found["flagged"]:
        raise Refused("no change")
    found["flagged"] = True
    return {"ok": True}


@tool("mail", "Delete a mail from the inbox.", mail=MAIL)
def delete_mail(state: State, mail: str) -> dict[str, Any]:
    _mail(state, mail)
    del state["mail"]["inbox"][mail]
    return {"ok": True}


def _mail(state: State, mail: str) -> dict[str, Any]:
    found: dict[str, Any] | None = state["mail"]["inbox"].get(mail)
    if found is None:
        raise Refused("no such mail")
    return found


def _sent(state: State, mail: dict[str, Any]) -> dict[str, Any]:
    box = state["mail"]
    if len(box["sent"]) >= MAX_ENTRIES:
        raise Refused("too many mails")
    number = f"m{box['next']}"
    box["next"] += 1
    box["sent"][number] = mail
    return {"ok": True}
