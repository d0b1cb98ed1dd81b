"""Recipes of the mail: finding, reading, answering and sending mail."""

from __future__ import annotations

from rods.composing.catalogue import step
from worlds.desk.recipes.notation import SEARCH, SPARE_MAIL, WHO, Recipes, recipe

RECIPES: Recipes = {}
recipe(
    RECIPES,
    "mail_person",
    (WHO, step("send_mail", address="0.address", subject="subject:new_subject", text="text:text")),
    "send {name} a mail about the {subject} saying {text}",
    "write to {name} about the {subject} and say {text}",
    "let {name} know by mail, subject {subject}, text {text}",
    gives="person=0.address/name",
)
recipe(
    RECIPES,
    "mail_address",
    (step("send_mail", address="address:address", subject="subject:new_subject", text="text:text"),),
    "send a mail to {address} about the {subject} saying {text}",
    "write to {address} with subject {subject} and text {text}",
)
recipe(
    RECIPES,
    "mail_them",
    (step("send_mail", address="^person", subject="subject:new_subject", text="text:text"),),
    "send {person} a mail about the {subject} saying {text}",
    "write to {person} about the {subject} and say {text}",
)
recipe(
    RECIPES,
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
recipe(
    RECIPES,
    "find_mail",
    (SEARCH,),
    "find the mail about the {subject}",
    "search my inbox for the {subject} mail",
    "check if there is a mail about the {subject}",
    gives="mail=0.mails.0/subject",
)
recipe(
    RECIPES,
    "read_found",
    (SEARCH, step("read_mail", mail="0.mails.0")),
    "tell me what the mail about the {subject} says",
    "open the {subject} mail and read it to me",
    "find the mail about the {subject} and tell me who sent it",
    gives="mail=0.mails.0/subject sender=1.sender/subject",
)
recipe(
    RECIPES,
    "answer_found",
    (SEARCH, step("reply_mail", mail="0.mails.0", text="text:text")),
    "answer the mail about the {subject} with {text}",
    "reply {text} to the {subject} mail",
    "find the mail about the {subject} and answer {text}",
    gives="mail=0.mails.0/subject",
)
recipe(
    RECIPES,
    "pass_to_person",
    (SEARCH, WHO, step("forward_mail", mail="0.mails.0", address="1.address")),
    "pass the mail about the {subject} on to {name}",
    "forward the {subject} mail to {name}",
    "make sure that the mail about the {subject} also gets to {name}",
    gives="mail=0.mails.0/subject person=1.address/name",
)
recipe(
    RECIPES,
    "pass_to_address",
    (SEARCH, step("forward_mail", mail="0.mails.0", address="address:address")),
    "pass the mail about the {subject} on to {address}",
    "forward the {subject} mail to {address}",
    gives="mail=0.mails.0/subject",
)
recipe(
    RECIPES,
    "mark_found",
    (SEARCH, step("flag_mail", mail="0.mails.0")),
    "mark the mail about the {subject} as important",
    "flag the {subject} mail for me",
    ends="mail",
)
recipe(
    RECIPES,
    "delete_found",
    (SPARE_MAIL, step("delete_mail", mail="0.mails.0")),
    "delete the mail about the {subject}",
    "throw the {subject} mail out of my inbox",
    ends="mail",
)
recipe(
    RECIPES,
    "read_it",
    (step("read_mail", mail="^mail"),),
    "tell me what {mail} says",
    "open {mail} and tell me who sent it",
    gives="sender=0.sender/mail",
)
recipe(
    RECIPES,
    "answer_it",
    (step("reply_mail", mail="^mail", text="text:text"),),
    "answer {mail} with {text}",
    "reply {text} to {mail}",
)
recipe(
    RECIPES,
    "pass_it_on",
    (WHO, step("forward_mail", mail="^mail", address="0.address")),
    "pass {mail} on to {name}",
    "let {name} have {mail} too",
    "forward {mail} to {name}",
    gives="person=0.address/name",
)
recipe(
    RECIPES,
    "pass_it_to_them",
    (step("forward_mail", mail="^mail", address="^person"),),
    "pass {mail} on to {person}",
    "forward {mail} to {person}",
)
recipe(
    RECIPES,
    "mark_it",
    (step("flag_mail", mail="^mail"),),
    "mark {mail} as important",
    "flag {mail} for me",
    ends="mail",
)
recipe(
    RECIPES,
    "delete_it",
    (step("delete_mail", mail="^mail"),),
    "delete {mail}",
    "throw {mail} out of my inbox",
    ends="mail",
)
recipe(
    RECIPES,
    "write_to_sender",
    (step("send_mail", address="^sender", subject="subject:new_subject", text="text:text"),),
    "write a new mail to {sender} about the {subject} saying {text}",
    "send {sender} a mail about the {subject} and say {text}",
)
