"""Desk's HIGH-LEVEL recipes: what a user of a small office asks for, as sequences of calls with flows, and its words.

A line of `_recipe` reads: name, steps in the short notation of `catalogue.step`, phrases, and what the recipe gives.
The phrases keep to a small vocabulary (`vocabulary.words`) and name every slot once.
"""

from __future__ import annotations

from rods.composing.catalogue import Gift, Recipe, Step, source, step

_ALL: dict[str, Recipe] = {}


def _recipe(name: str, steps: tuple[Step, ...], *phrases: str, gives: str = "", ends: str = "") -> None:
    """`gives` holds entries `kind=source/noun` separated by blanks, `ends` kinds."""
    gifts = {}
    for entry in gives.split():
        kind, _, rest = entry.partition("=")
        value, _, noun = rest.partition("/")
        gifts[kind] = Gift(source(value), noun)
    _ALL[name] = Recipe(name, steps, phrases, gifts, tuple(ends.split()))


# Steps that many recipes share.
_WHO = step("find_contact", name="name:contact")
_SEARCH = step("search_mail", subject="subject:subject")
_SPARE_MAIL = step("search_mail", subject="subject:spare_subject")  # not the one that the story is about
_SPARE_EVENT = step("find_event", title="title:spare_title")
_EVENT = step("find_event", title="title:title")
_BILL = step("find_bill", vendor="vendor:vendor")
_NEW_EVENT = step("create_event", title="title:new_title", day="day:day", hour="hour:hour")

# Contacts
_recipe(
    "look_up_person",
    (_WHO,),
    "look up the address of {name}",
    "find out where {name} gets mail",
    "check how to reach {name}",
    gives="person=0.address/name",
)
_recipe(
    "see_team",
    (step("list_team", team="team:team"),),
    "tell me who works in {team}",
    "list everyone in {team}",
    "check who is in {team} now",
)
_recipe(
    "add_person",
    (step("add_contact", name="name:new_name", address="address:new_address", team="team:team"),),
    "add {name} from {team} with the address {address}",
    "put {name} on our list, address {address}, working in {team}",
    "enter {name} as a new contact at {address} in {team}",
    gives="person=address:new_address/name",
)
_recipe(
    "readdress_person",
    (step("change_address", name="name:contact", address="address:new_address"),),
    "note that {name} now gets mail at {address}",
    "change the address of {name} to {address}",
    "set the address of {name} to {address}",
    gives="person=address:new_address/name",
)
_recipe(
    "switch_team",
    (step("change_team", name="name:contact", team="team:other_team"),),
    "note that {name} works in {team} now",
    "put {name} into {team}",
    "change the team of {name} to {team}",
)
_recipe(
    "drop_person",
    (step("remove_contact", name="name:contact"),),
    "remove {name} from our contacts",
    "take {name} off the contact list",
    "drop {name} from the list of contacts",
    ends="person",
)

# Mail
_recipe(
    "mail_person",
    (_WHO, step("send_mail", address="0.address", subject="subject:new_subject", text="text:text")),
    "send {name} a mail about the {subject} saying {text}",
    "write to {name} about the {subject} and say {text}",
    "let {name} know by mail, subject {subject}, text {text}",
    gives="person=0.address/name",
)
_recipe(
    "mail_address",
    (step("send_mail", address="address:address", subject="subject:new_subject", text="text:text"),),
    "send a mail to {address} about the {subject} saying {text}",
    "write to {address} with subject {subject} and text {text}",
)
_recipe(
    "mail_them",
    (step("send_mail", address="^person", subject="subject:new_subject", text="text:text"),),
    "send {person} a mail about the {subject} saying {text}",
    "write to {person} about the {subject} and say {text}",
)
_recipe(
    "mail_lone_member",
    (
        step("list_team", team="team:lone_team"),
        step("find_contact", name="0.names.0"),
        step("send_mail", address="1.address", subject="subject:new_subject", text="text:text"),
    ),
    "send the only person in {team} a mail about the {subject} saying {text}",
    "find the one person who works in {team} and mail them about the {subject} with the text {text}",
    ends="person",
)
_recipe(
    "find_mail",
    (_SEARCH,),
    "find the mail about the {subject}",
    "search my inbox for the {subject} mail",
    "check if there is a mail about the {subject}",
    gives="mail=0.mails.0/subject",
)
_recipe(
    "read_found",
    (_SEARCH, step("read_mail", mail="0.mails.0")),
    "tell me what the mail about the {subject} says",
    "open the {subject} mail and read it to me",
    "find the mail about the {subject} and tell me who sent it",
    gives="mail=0.mails.0/subject sender=1.sender/subject",
)
_recipe(
    "answer_found",
    (_SEARCH, step("reply_mail", mail="0.mails.0", text="text:text")),
    "answer the mail about the {subject} with {text}",
    "reply {text} to the {subject} mail",
    "find the mail about the {subject} and answer {text}",
    gives="mail=0.mails.0/subject",
)
_recipe(
    "pass_to_person",
    (_SEARCH, _WHO, step("forward_mail", mail="0.mails.0", address="1.address")),
    "pass the mail about the {subject} on to {name}",
    "forward the {subject} mail to {name}",
    "make sure that the mail about the {subject} also gets to {name}",
    gives="mail=0.mails.0/subject person=1.address/name",
)
_recipe(
    "pass_to_address",
    (_SEARCH, step("forward_mail", mail="0.mails.0", address="address:address")),
    "pass the mail about the {subject} on to {address}",
    "forward the {subject} mail to {address}",
    gives="mail=0.mails.0/subject",
)
_recipe(
    "mark_found",
    (_SEARCH, step("flag_mail", mail="0.mails.0")),
    "mark the mail about the {subject} as important",
    "flag the {subject} mail for me",
    gives="mail=0.mails.0/subject",
)
_recipe(
    "delete_found",
    (_SPARE_MAIL, step("delete_mail", mail="0.mails.0")),
    "delete the mail about the {subject}",
    "throw the {subject} mail out of my inbox",
    ends="mail",
)
_recipe(
    "read_it",
    (step("read_mail", mail="^mail"),),
    "tell me what {mail} says",
    "open {mail} and tell me who sent it",
    gives="sender=0.sender/mail",
)
_recipe(
    "answer_it",
    (step("reply_mail", mail="^mail", text="text:text"),),
    "answer {mail} with {text}",
    "reply {text} to {mail}",
)
_recipe(
    "pass_it_on",
    (_WHO, step("forward_mail", mail="^mail", address="0.address")),
    "pass {mail} on to {name}",
    "let {name} have {mail} too",
    "forward {mail} to {name}",
    gives="person=0.address/name",
)
_recipe(
    "pass_it_to_them",
    (step("forward_mail", mail="^mail", address="^person"),),
    "pass {mail} on to {person}",
    "forward {mail} to {person}",
)
_recipe("mark_it", (step("flag_mail", mail="^mail"),), "mark {mail} as important", "flag {mail} for me")
_recipe("delete_it", (step("delete_mail", mail="^mail"),), "delete {mail}", "throw {mail} out of my inbox", ends="mail")
_recipe(
    "write_to_sender",
    (step("send_mail", address="^sender", subject="subject:new_subject", text="text:text"),),
    "write a new mail to {sender} about the {subject} saying {text}",
    "send {sender} a mail about the {subject} and say {text}",
)

# Calendar
_recipe(
    "plan_event",
    (_NEW_EVENT,),
    "plan the {title} on {day} at {hour}",
    "put the {title} on my calendar, {day} at {hour}",
    "set up an event called {title} for {day} at {hour}",
    gives="event=0.event/title",
)
_recipe(
    "look_up_event",
    (_EVENT,),
    "tell me when the {title} is",
    "find the {title} on my calendar",
    "check the day and hour of the {title}",
    gives="event=0.event/title",
)
_recipe(
    "see_day",
    (step("list_day", day="day:day"),),
    "tell me what is on my calendar for {day}",
    "list my events on {day}",
    "check how full {day} is",
)
_recipe("see_today", (Step("list_day"),), "tell me what is on today", "list what my calendar holds for today")
_recipe(
    "shift_event",
    (_EVENT, step("move_event", event="0.event", day="day:day", hour="hour:hour")),
    "move the {title} to {day} at {hour}",
    "change the {title} to {day} at {hour}",
    "make the {title} start on {day} at {hour}",
    gives="event=0.event/title",
)
_recipe(
    "drop_event",
    (_SPARE_EVENT, step("cancel_event", event="0.event")),
    "cancel the {title}",
    "take the {title} off my calendar",
    "call off the {title} because it will not happen",
    ends="event",
)
_recipe(
    "invite_person",
    (_EVENT, _WHO, step("invite_guest", event="0.event", address="1.address")),
    "invite {name} to the {title}",
    "add {name} as a guest of the {title}",
    "make sure that {name} is invited to the {title}",
    gives="event=0.event/title person=1.address/name",
)
_recipe(
    "room_for_event",
    (_EVENT, step("book_room", event="0.event", room="room:room")),
    "book {room} for the {title}",
    "get us {room} as the room for the {title}",
    gives="event=0.event/title",
)
_recipe(
    "move_it",
    (step("move_event", event="^event", day="day:day", hour="hour:hour"),),
    "move {event} to {day} at {hour}",
    "change {event} to {day} at {hour}",
)
_recipe(
    "cancel_it", (step("cancel_event", event="^event"),), "cancel {event}", "take {event} off my calendar", ends="event"
)
_recipe(
    "invite_to_it",
    (_WHO, step("invite_guest", event="^event", address="0.address")),
    "invite {name} to {event}",
    "add {name} as a guest of {event}",
    gives="person=0.address/name",
)
_recipe(
    "invite_address",
    (step("invite_guest", event="^event", address="address:new_guest"),),
    "invite {address} to {event}",
    "add {address} to the guests of {event}",
)
_recipe(
    "invite_them",
    (step("invite_guest", event="^event", address="^person"),),
    "invite {person} to {event}",
    "add {person} to the guests of {event}",
)
_recipe(
    "room_for_it",
    (step("book_room", event="^event", room="room:other_room"),),
    "book {room} for {event}",
    "get {room} as the room for {event}",
)
_recipe(
    "plan_in_room",
    (_NEW_EVENT, step("book_room", event="0.event", room="room:room")),
    "plan the {title} on {day} at {hour} and book {room} for it",
    "set up an event called {title} in {room}, {day} at {hour}",
    gives="event=0.event/title",
)
_recipe(
    "plan_with_guest",
    (_NEW_EVENT, _WHO, step("invite_guest", event="0.event", address="1.address")),
    "plan the {title} on {day} at {hour} and invite {name}",
    "set up the {title} with {name} as a guest, {day} at {hour}",
    gives="event=0.event/title person=1.address/name",
)
_recipe(
    "clear_day",
    (step("list_day", day="day:lone_day"), step("cancel_event", event="0.events.0")),
    "cancel the only event that I have on {day}",
    "clear {day} by calling off the one event there",
    ends="event",
)
_recipe(
    "plan_same_day",
    (_EVENT, step("create_event", title="new:new_title", day="0.day", hour="hour:hour")),
    "plan the {new} at {hour} on the day of the {title}",
    "put the {new} on the day when the {title} is, at {hour}",
    gives="event=1.event/new",
)

# Files
_recipe(
    "new_file",
    (step("create_file", file="file:new_file", folder="folder:folder", text="text:text"),),
    "start a file called {file} in {folder} with the text {text}",
    "create {file} in {folder} and write {text}",
    "save {text} as a new file {file} in {folder}",
    gives="file=file:new_file/file",
)
_recipe(
    "see_folder",
    (step("list_folder", folder="folder:folder"),),
    "tell me which files are in {folder}",
    "list what we keep in {folder}",
    "check what {folder} holds",
)
_recipe(
    "show_file",
    (step("read_file", file="file:file"),),
    "tell me what the {file} says",
    "read the {file} to me",
    "open the {file} and show me the text",
    gives="file=file:file/file",
)
_recipe(
    "write_file",
    (step("write_file", file="file:file", text="text:new_text"),),
    "write {text} into the {file}",
    "make the {file} say {text}",
    "change the text of the {file} to {text}",
    gives="file=file:file/file",
)
_recipe(
    "copy_file",
    (step("copy_file", file="file:file", copy="copy:new_file"),),
    "copy the {file} under the name {copy}",
    "make a copy of the {file} called {copy}",
    gives="file=copy:new_file/copy",
)
_recipe(
    "move_file",
    (step("move_file", file="file:file", folder="folder:other_folder"),),
    "move the {file} into {folder}",
    "put the {file} into {folder}",
    gives="file=file:file/file",
)
_recipe(
    "lock_file",
    (step("lock_file", file="file:file"),),
    "lock the {file}",
    "make sure that nobody can change the {file}",
    ends="file",
)
_recipe(
    "unlock_file",
    (step("unlock_file", file="file:locked_file"),),
    "unlock the {file}",
    "open the {file} for changes again",
    gives="file=file:locked_file/file",
)
_recipe(
    "share_with_person",
    (_WHO, step("share_file", file="file:file", address="0.address")),
    "share the {file} with {name}",
    "give {name} the {file}",
    "let {name} see the {file}",
    gives="file=file:file/file person=0.address/name",
)
_recipe(
    "share_with_address",
    (step("share_file", file="file:file", address="address:address"),),
    "share the {file} with {address}",
    "let {address} see the {file}",
    gives="file=file:file/file",
)
_recipe(
    "unlock_and_write",
    (step("unlock_file", file="file:locked_file"), step("write_file", file="file:locked_file", text="text:new_text")),
    "unlock the {file} and make it say {text}",
    "open the {file} for changes and write {text}",
    gives="file=file:locked_file/file",
)
_recipe(
    "write_and_lock",
    (step("write_file", file="file:file", text="text:new_text"), step("lock_file", file="file:file")),
    "write {text} into the {file} and lock it",
    "make the {file} say {text} and let nobody change it after",
    ends="file",
)
_recipe(
    "move_lone_file",
    (
        step("list_folder", folder="folder:lone_folder"),
        step("move_file", file="0.files.0", folder="target:other_folder"),
    ),
    "move the only file in {folder} into {target}",
    "find the one file that {folder} holds and put it into {target}",
    ends="file",
)
_recipe(
    "read_lone_file",
    (step("list_folder", folder="folder:lone_folder"), step("read_file", file="0.files.0")),
    "tell me what the only file in {folder} says",
    "open the one file that {folder} holds and read it to me",
    ends="file",
)
_recipe(
    "mail_file",
    (
        step("read_file", file="file:file"),
        _WHO,
        step("send_mail", address="1.address", subject="subject:new_subject", text="0.text"),
    ),
    "mail the text of the {file} to {name}, subject {subject}",
    "send {name} a mail about the {subject} with what the {file} says",
    gives="file=file:file/file person=1.address/name",
)
_recipe(
    "save_mail",
    (
        _SEARCH,
        step("read_mail", mail="0.mails.0"),
        step("create_file", file="file:new_file", folder="folder:folder", text="1.text"),
    ),
    "save the text of the {subject} mail as {file} in {folder}",
    "create {file} in {folder} with what the mail about the {subject} says",
    gives="mail=0.mails.0/subject file=file:new_file/file",
)
_recipe(
    "write_it",
    (step("write_file", file="^file", text="text:new_text"),),
    "write {text} into {file}",
    "make {file} say {text}",
)
_recipe(
    "lock_it", (step("lock_file", file="^file"),), "lock {file}", "make sure that nobody can change {file}", ends="file"
)
_recipe(
    "move_it_to",
    (step("move_file", file="^file", folder="folder:other_folder"),),
    "move {file} into {folder}",
    "put {file} into {folder}",
)
_recipe(
    "share_it",
    (_WHO, step("share_file", file="^file", address="0.address")),
    "share {file} with {name}",
    "let {name} see {file}",
    gives="person=0.address/name",
)
_recipe(
    "share_it_with_them",
    (step("share_file", file="^file", address="^person"),),
    "share {file} with {person}",
    "let {person} see {file}",
)

# Ledger
_recipe(
    "see_balance",
    (step("get_balance", account="account:account"),),
    "tell me how much money is in {account}",
    "check the balance of {account}",
    "look up what {account} holds",
)
_recipe(
    "move_money",
    (step("transfer_money", amount="amount:amount", source="source:account", target="target:target"),),
    "move {amount} from {source} to {target}",
    "take {amount} out of {source} and put it into {target}",
    "fill up {target} with {amount} from {source}",
)
_recipe(
    "take_in",
    (step("add_income", account="account:account", amount="amount:amount"),),
    "note that {amount} came into {account}",
    "put {amount} of new money into {account}",
    "enter an income of {amount} for {account}",
)
_recipe(
    "spend",
    (step("add_expense", account="account:account", amount="amount:amount"),),
    "note that we spent {amount} from {account}",
    "enter an expense of {amount} for {account}",
)
_recipe(
    "see_bill",
    (_BILL,),
    "look up the open bill of {vendor}",
    "tell me how much {vendor} wants from us",
    "check what we owe {vendor}",
    gives="bill=0.bill/vendor",
)
_recipe(
    "pay_vendor",
    (_BILL, step("pay_bill", bill="0.bill", account="account:account")),
    "pay the bill of {vendor} from {account}",
    "use {account} to pay what we owe {vendor}",
    "find the bill of {vendor} and pay it with {account}",
    ends="bill",
)
_recipe(
    "new_bill",
    (step("add_bill", vendor="vendor:new_vendor", amount="amount:amount"),),
    "enter a bill of {amount} from {vendor}",
    "note that {vendor} wants {amount} from us",
    gives="bill=0.bill/vendor",
)
_recipe(
    "enter_and_pay",
    (
        step("add_bill", vendor="vendor:new_vendor", amount="amount:amount"),
        step("pay_bill", bill="0.bill", account="account:account"),
    ),
    "enter a bill of {amount} from {vendor} and pay it from {account}",
    "note that {vendor} wants {amount} and use {account} to pay",
    ends="bill",
)
_recipe(
    "pay_it",
    (step("pay_bill", bill="^bill", account="account:account"),),
    "pay {bill} from {account}",
    "use {account} to pay {bill}",
    ends="bill",
)
_recipe(
    "empty_account",
    (
        step("get_balance", account="source:account"),
        step("transfer_money", amount="0.balance", source="source:account", target="target:target"),
    ),
    "move all the money from {source} to {target}",
    "empty {source} and put everything into {target}",
)
_recipe(
    "cover_bill",
    (_BILL, step("transfer_money", amount="0.amount", source="source:account", target="target:target")),
    "move as much as the bill of {vendor} asks from {source} to {target}",
    "fill up {target} from {source} with what we owe {vendor}",
    gives="bill=0.bill/vendor",
)
_recipe(
    "cover_and_pay",
    (
        _BILL,
        step("transfer_money", amount="0.amount", source="source:account", target="target:target"),
        step("pay_bill", bill="0.bill", account="target:target"),
    ),
    "move what we owe {vendor} from {source} to {target} and pay the bill from there",
    "fill up {target} from {source} with what {vendor} wants, then use it to pay",
    ends="bill",
)
_recipe(
    "spend_bill",
    (_BILL, step("add_expense", account="account:account", amount="0.amount")),
    "look up the bill of {vendor} and enter as much as an expense for {account}",
    "note an expense for {account} that is as high as the bill of {vendor}",
    gives="bill=0.bill/vendor",
)

RECIPES = dict(_ALL)
