"""Recipes of the ledger: accounts and bills."""

from __future__ import annotations

from rods.composing.catalogue import step
from worlds.desk.recipes.notation import BILL, Recipes, recipe

RECIPES: Recipes = {}
recipe(
    RECIPES,
    "see_balance",
    (step("get_balance", account="account:account"),),
    "tell me how much money is in {account}",
    "check the balance of {account}",
    "look up what {account} holds",
)
recipe(
    RECIPES,
    "move_money",
    (step("transfer_money", amount="amount:amount", source="source:account", target="target:target"),),
    "move {amount} from {source} to {target}",
    "take {amount} out of {source} and put it into {target}",
    "fill up {target} with {amount} from {source}",
)
recipe(
    RECIPES,
    "take_in",
    (step("add_income", account="account:account", amount="amount:amount"),),
    "note that {amount} came into {account}",
    "put {amount} of new money into {account}",
    "enter an income of {amount} for {account}",
)
recipe(
    RECIPES,
    "spend",
    (step("add_expense", account="account:account", amount="amount:amount"),),
    "note that we spent {amount} from {account}",
    "enter an expense of {amount} for {account}",
)
recipe(
    RECIPES,
    "see_bill",
    (BILL,),
    "look up the open bill of {vendor}",
    "tell me how much {vendor} wants from us",
    "check what we owe {vendor}",
    gives="bill=0.bill/vendor",
)
recipe(
    RECIPES,
    "pay_vendor",
    (BILL, step("pay_bill", bill="0.bill", account="account:account")),
    "pay the bill of {vendor} from {account}",
    "use {account} to pay what we owe {vendor}",
    "find the bill of {vendor} and pay it with {account}",
    ends="bill",
)
recipe(
    RECIPES,
    "new_bill",
    (step("add_bill", vendor="vendor:new_vendor", amount="amount:amount"),),
    "enter a bill of {amount} from {vendor}",
    "note that {vendor} wants {amount} from us",
    gives="bill=0.bill/vendor",
)
recipe(
    RECIPES,
    "enter_and_pay",
    (
        step("add_bill", vendor="vendor:new_vendor", amount="amount:amount"),
        step("pay_bill", bill="0.bill", account="account:account"),
    ),
    "enter a bill of {amount} from {vendor} and pay it from {account}",
    "note that {vendor} wants {amount} and use {account} to pay",
    ends="bill",
)
recipe(
    RECIPES,
    "pay_it",
    (step("pay_bill", bill="^bill", account="account:account"),),
    "pay {bill} from {account}",
    "use {account} to pay {bill}",
    ends="bill",
)
recipe(
    RECIPES,
    "empty_account",
    (
        step("get_balance", account="source:account"),
        step("transfer_money", amount="0.balance", source="source:account", target="target:target"),
    ),
    "move all the money from {source} to {target}",
    "empty {source} and put everything into {target}",
)
recipe(
    RECIPES,
    "cover_bill",
    (BILL, step("transfer_money", amount="0.amount", source="source:account", target="target:target")),
    "move as much as the bill of {vendor} asks from {source} to {target}",
    "fill up {target} from {source} with what we owe {vendor}",
    gives="bill=0.bill/vendor",
)
recipe(
    RECIPES,
    "cover_and_pay",
    (
        BILL,
        step("transfer_money", amount="0.amount", source="source:account", target="target:target"),
        step("pay_bill", bill="0.bill", account="target:target"),
    ),
    "move what we owe {vendor} from {source} to {target} and pay the bill from there",
    "fill up {target} from {source} with what {vendor} wants, then use it to pay",
    ends="bill",
)
recipe(
    RECIPES,
    "spend_bill",
    (BILL, step("add_expense", account="account:account", amount="0.amount")),
    "look up the bill of {vendor} and enter as much as an expense for {account}",
    "note an expense for {account} that is as high as the bill of {vendor}",
    gives="bill=0.bill/vendor",
)
