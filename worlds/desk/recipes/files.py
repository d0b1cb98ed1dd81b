"""Recipes of the files: texts in folders, locked and shared."""

from __future__ import annotations

from rods.composing.catalogue import step
from worlds.desk.recipes.notation import SEARCH, WHO, Recipes, recipe

RECIPES: Recipes = {}
recipe(
    RECIPES,
    "new_file",
    (step("create_file", file="file:new_file", folder="folder:folder", text="text:text"),),
    "start a file called {file} in {folder} with the text {text}",
    "create {file} in {folder} and write {text}",
    "save {text} as a new file {file} in {folder}",
    gives="file=file:new_file/file",
)
recipe(
    RECIPES,
    "see_folder",
    (step("list_folder", folder="folder:folder"),),
    "tell me which files are in {folder}",
    "list what we keep in {folder}",
    "check what {folder} holds",
)
recipe(
    RECIPES,
    "show_file",
    (step("read_file", file="file:file"),),
    "tell me what the {file} says",
    "read the {file} to me",
    "open the {file} and show me the text",
    gives="file=file:file/file",
)
recipe(
    RECIPES,
    "write_file",
    (step("write_file", file="file:file", text="text:new_text"),),
    "write {text} into the {file}",
    "make the {file} say {text}",
    "change the text of the {file} to {text}",
    gives="file=file:file/file",
)
recipe(
    RECIPES,
    "copy_file",
    (step("copy_file", file="file:file", copy="copy:new_file"),),
    "copy the {file} under the name {copy}",
    "make a copy of the {file} called {copy}",
    gives="file=copy:new_file/copy",
)
recipe(
    RECIPES,
    "move_file",
    (step("move_file", file="file:file", folder="folder:other_folder"),),
    "move the {file} into {folder}",
    "put the {file} into {folder}",
    gives="file=file:file/file",
)
recipe(
    RECIPES,
    "lock_file",
    (step("lock_file", file="file:file"),),
    "lock the {file}",
    "make sure that nobody can change the {file}",
    ends="file",
)
recipe(
    RECIPES,
    "unlock_file",
    (step("unlock_file", file="file:locked_file"),),
    "unlock the {file}",
    "open the {file} for changes again",
    gives="file=file:locked_file/file",
)
recipe(
    RECIPES,
    "share_with_person",
    (WHO, step("share_file", file="file:file", address="0.address")),
    "share the {file} with {name}",
    "give {name} the {file}",
    "let {name} see the {file}",
    gives="file=file:file/file person=0.address/name",
)
recipe(
    RECIPES,
    "share_with_address",
    (step("share_file", file="file:file", address="address:new_reader"),),
    "share the {file} with {address}",
    "let {address} see the {file}",
    gives="file=file:file/file",
)
recipe(
    RECIPES,
    "unlock_and_write",
    (step("unlock_file", file="file:locked_file"), step("write_file", file="file:locked_file", text="text:new_text")),
    "unlock the {file} and make it say {text}",
    "open the {file} for changes and write {text}",
    gives="file=file:locked_file/file",
)
recipe(
    RECIPES,
    "write_and_lock",
    (step("write_file", file="file:file", text="text:new_text"), step("lock_file", file="file:file")),
    "write {text} into the {file} and lock it",
    "make the {file} say {text} and let nobody change it after",
    ends="file",
)
recipe(
    RECIPES,
    "move_lone_file",
    (
        step("list_folder", folder="folder:lone_folder"),
        step("move_file", file="0.files.0", folder="target:other_folder"),
    ),
    "move the only file in {folder} into {target}",
    "find the one file that {folder} holds and put it into {target}",
    ends="file",
)
recipe(
    RECIPES,
    "read_lone_file",
    (step("list_folder", folder="folder:lone_folder"), step("read_file", file="0.files.0")),
    "tell me what the only file in {folder} says",
    "open the one file that {folder} holds and read it to me",
    ends="file",
)
recipe(
    RECIPES,
    "mail_file",
    (
        step("read_file", file="file:file"),
        WHO,
        step("send_mail", address="1.address", subject="subject:new_subject", text="0.text"),
    ),
    "mail the text of the {file} to {name}, subject {subject}",
    "send {name} a mail about the {subject} with what the {file} says",
    gives="file=file:file/file person=1.address/name",
)
recipe(
    RECIPES,
    "save_mail",
    (
        SEARCH,
        step("read_mail", mail="0.mails.0"),
        step("create_file", file="file:new_file", folder="folder:folder", text="1.text"),
    ),
    "save the text of the {subject} mail as {file} in {folder}",
    "create {file} in {folder} with what the mail about the {subject} says",
    gives="mail=0.mails.0/subject file=file:new_file/file",
)
recipe(
    RECIPES,
    "write_it",
    (step("write_file", file="^file", text="text:new_text"),),
    "write {text} into {file}",
    "make {file} say {text}",
)
recipe(
    RECIPES,
    "lock_it",
    (step("lock_file", file="^file"),),
    "lock {file}",
    "make sure that nobody can change {file}",
    ends="file",
)
recipe(
    RECIPES,
    "move_it_to",
    (step("move_file", file="^file", folder="folder:other_folder"),),
    "move {file} into {folder}",
    "put {file} into {folder}",
)
recipe(
    RECIPES,
    "share_it",
    (WHO, step("share_file", file="^file", address="0.address")),
    "share {file} with {name}",
    "let {name} see {file}",
    gives="person=0.address/name",
)
recipe(
    RECIPES,
    "share_it_with_them",
    (step("share_file", file="^file", address="^person"),),
    "share {file} with {person}",
    "let {person} see {file}",
)
