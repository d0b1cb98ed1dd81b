"""Desk's golden transcript: calls of every tool and every refusal, with what they gave. Written by

    python -m tests.worlds.desk.transcript

whenever desk's behaviour changes on purpose, together with a higher `world.BEHAVIOUR`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rods.calls import parse_python_call
from rods.worlds.desk import environment
from rods.worlds.desk.world import BEHAVIOUR

GOLDEN = Path(__file__).with_name("transcript.json")
STATE: dict[str, Any] = {
    "today": "tuesday",
    "contacts": {
        "ada": {"address": "box12", "team": "sales"},
        "ben": {"address": "box30", "team": "sales"},
        "uma": {"address": "box17", "team": "legal"},
    },
    "mail": {
        "inbox": {
            "m11": {"sender": "box12", "subject": "budget", "text": "not ready", "flagged": False},
            "m20": {"sender": "box17", "subject": "audit", "text": "sign today", "flagged": True},
        },
        "sent": {},
        "next": 24,
    },
    "calendar": {
        "events": {
            "e13": {
                "title": "picnic",
                "day": "tuesday",
                "hour": 9,
                "room": "oak",
                "guests": ["box30"],
            },
            "e10": {"title": "launch", "day": "friday", "hour": 14, "room": "", "guests": []},
        },
        "next": 25,
    },
    "files": {
        "memo": {"folder": "drafts", "text": "call back", "locked": False, "shared": ["box12"]},
        "agenda": {"folder": "public", "text": "good luck", "locked": True, "shared": []},
    },
    "ledger": {
        "accounts": {"cash": 200, "savings": 600},
        "bills": {
            "i15": {"vendor": "acme", "amount": 120, "paid": False},
            "i12": {"vendor": "orbit", "amount": 80, "paid": True},
        },
        "next": 26,
    },
}
REFUSALS = (  # but those of worlds that are full
    "no such contact",
    "contact exists",
    "no such mail",
    "no such event",
    "hour taken",
    "no such file",
    "file exists",
    "file locked",
    "file not locked",
    "no such account",
    "same account",
    "not enough money",
    "no such bill",
    "bill paid",
    "no change",
)
CALLS = """
find_contact(name='ada') find_contact(name='zoe') list_team(team='sales') list_team(team='press')
add_contact(name='zoe', address='box33', team='press')
add_contact(name='ada', address='box33', team='press')
change_address(name='ada', address='box12') change_address(name='ada', address='box20')
find_contact(name='ada')
change_team(name='ben', team='sales') change_team(name='ben', team='design')
remove_contact(name='uma')
remove_contact(name='uma') search_mail(subject='budget') search_mail(subject='parade')
read_mail(mail='m11')
read_mail(mail='m12') send_mail(address='box40', subject='launch', text='well done')
reply_mail(mail='m11', text='many thanks') reply_mail(mail='m24', text='many thanks')
forward_mail(mail='m20', address='box30') flag_mail(mail='m11') flag_mail(mail='m20')
delete_mail(mail='m11')
delete_mail(mail='m11') find_event(title='launch') find_event(title='audit') list_day()
list_day(day='friday')
list_day(day='monday') create_event(title='audit', day='friday', hour=14)
create_event(title='audit', day='friday', hour=15)
move_event(event='e25', day='tuesday', hour=9) move_event(event='e25', day='tuesday', hour=10)
move_event(event='e99', day='tuesday', hour=11) invite_guest(event='e25', address='box30')
invite_guest(event='e25', address='box12') invite_guest(event='e25', address='box30')
book_room(event='e13', room='oak')
book_room(event='e13', room='elm') cancel_event(event='e10') cancel_event(event='e10')
list_folder(folder='drafts')
list_folder(folder='old') read_file(file='memo') read_file(file='map')
create_file(file='map', folder='drafts', text='check twice')
create_file(file='map', folder='old', text='check twice')
write_file(file='memo', text='call back') write_file(file='memo', text='stay calm')
write_file(file='agenda', text='stay calm')
copy_file(file='agenda', copy='poster') copy_file(file='memo', copy='poster')
move_file(file='poster', folder='public')
move_file(file='poster', folder='old') lock_file(file='poster') lock_file(file='poster')
unlock_file(file='agenda')
unlock_file(file='agenda') share_file(file='memo', address='box12')
share_file(file='memo', address='box10')
list_folder(folder='drafts') get_balance(account='cash') get_balance(account='taxes')
transfer_money(amount=100, source='cash', target='savings')
transfer_money(amount=101, source='cash', target='savings')
transfer_money(amount=1, source='cash', target='cash')
transfer_money(amount=1, source='cash', target='taxes')
add_income(account='cash', amount=40) add_expense(account='savings', amount=700)
add_expense(account='savings', amount=701)
add_expense(account='savings', amount=1) find_bill(vendor='acme') find_bill(vendor='orbit')
add_bill(vendor='orbit', amount=60) find_bill(vendor='orbit') pay_bill(bill='i26', account='cash')
pay_bill(bill='i26', account='cash') pay_bill(bill='i15', account='cash')
pay_bill(bill='i99', account='cash')
get_balance(account='cash')
no_such_tool() find_contact() find_contact(name=5) find_contact(name='ada', day='monday')
find_contact(name='')
list_team(team='board') create_event(title='audit', day='friday', hour=7)
create_event(title='audit', day='friday', hour=9.0)
create_event(title='audit', day='friday', hour=True)
transfer_money(amount=0, source='cash', target='savings')
read_file(file='\\ud800')
"""


def transcript() -> dict[str, Any]:
    """Every call with its result, and the state in the end."""
    instance = environment().reset(STATE)
    lines = []
    for text in CALLS.replace(") ", ")\n").split("\n"):
        if text:
            call = parse_python_call(text, {})
            result = instance.call(call)
            lines.append([text, result.text, result.error])
    return {"behaviour": BEHAVIOUR, "calls": lines, "state": instance.snapshot()}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(transcript(), indent=1, sort_keys=True) + "\n")
