"""Values of ground truths, and texts that give one of them away in disguise."""

from __future__ import annotations

import base64
import codecs
from dataclasses import replace

from rods.calls import Call
from rods.tasks import Task
from rods.worlds import desk

VALUES = (
    *(
        "SFO",
        "2024-05-04",
        "1250",
        "final_report.pdf",
        "San Francisco",
        "more details",
        "paul",
        "e13",
        "Zenith",
    ),
    *("inspection", "call back", "read_write"),
)

LEAKS: dict[str, str] = {
    "as it is": "use SFO there",
    "in small letters": "use sfo there",
    "letter by letter": "use S F O there",
    "small letters apart": "use s f o there",
    "with dots": "use S.F.O there",
    "with hyphens": "use S-F-O there",
    "with underscores": "use S_F_O there",
    "in quotes": "use 'S' 'F' 'O' there",
    "spelled by alphabet": "use Sierra Foxtrot Oscar there",
    "backwards": f"use {'SFO'[::-1]} backwards",
    "rotated": f"use {codecs.encode('SFO', 'rot13')} there",
    "base64": f"use {base64.b64encode(b'SFO').decode()} there",
    "hexadecimal": f"use {b'SFO'.hex()} there",
    "percent signs": "use %53%46%4F there",
    "entities": "use &#83;&#70;&#79; there",
    "full width": "use ＳＦＯ there",
    "letters of another script": "use ЅFО there",
    "joined by nothing": "use S\u200bF\u200bO there",
    "digits for letters": "use 5F0 there",
    "a city": "use the code of San Francisco",
    "half a city": "use the code of Francisco",
    "a date": "use 2024-05-04 there",
    "a date in words": "use May 4th, 2024 there",
    "a date without its year": "use the fourth of May",
    "a short date": "use 04/05/24 there",
    "a date in one number": "use 20240504 there",
    "a number": "use 1250 there",
    "a number with a comma": "use 1,250 there",
    "a number with a unit": "use 1.25k there",
    "a number with an exponent": "use 1.25e3 there",
    "a number in words": "use twelve hundred and fifty there",
    "a number in Roman letters": "use MCCL there",
    "a number in base sixteen": "use 0x4E2 there",
    "a number as a product": "use fifty times twenty-five there",
    "a number in another language": "use mille deux cent cinquante there",
    "a file in words": "use final report there",
    "a file in humps": "use finalReport there",
    "a file with hyphens": "use final-report dot pdf there",
    "plain words": "more details",
    "initials": "put all under lists",
    "odd capitals": "use Search First Of there, reAd the capitals sFo",
    "a name": "it is about Zenith",
    "a call": "use find_event(title=launch) there",
    "an assignment": "use event=e13 there",
    "a list": "use [e13] there",
    "with marks on its letters": "use S\u0332F\u0332O\u0332 there",
    "with hyphens that are not seen": "use S\u00adF\u00adO there",
    "from right to left": "use \u202eOFS\u202c there",
    "one letter of another script in plain words": "use mor\u0435 details there",
    "a number digit by digit": "use one two five zero there",
    "a number as half of another": "use half of two thousand five hundred there",
    "a number by dozens": "use a gross and a dozen there",
    "a number in Latin": "use mille ducenti quinquaginta there",
    "a number in base two": "use 10011100010 there",
    "a day of the year": "it is on the hundred and twenty-fifth day of the year",
    "a date by ordinals": "it is on the fourth day of the fifth month",
    "in Morse": "use dot dot dot, dot dot dash dot, dash dash dash there",
    "by places in the alphabet": "use the letters nineteen, six and fifteen there",
    "base64 backwards": f"use {base64.b64encode(b'SFO').decode()[::-1]} there",
    "an identifier in words": "use e one three there",
    "the number before": "use the event that comes after the twelfth",
    "plain words in two sentences": "use more. Details come after it",
    "plain words with a sign": "use more, details there",
    "plain words with a slash": "use more/details there",
    "plain words in quotes": "use 'more' and 'details' there",
    "plain words turned round": "use details, and more of them",
    "plain words backwards": "use details, then before it more",
    "another number of a plain word": "use more detail there",
    "another form of a plain word": "it has to be inspected there",
    "another form of two plain words": "the user calls back there",
    "plain words with another among them": "call it back",
    "an identifier taken apart": "use read or write there",
    "first letters of sentences": "use this. Put it there. All of it may be used. Use it. Look at "
    "it",
    "last letters": "keep data you tell",
    "last letters backwards": "tell you data keep",
    "capitals in mid-sentence": "Search For Others",
    "capitals among other words": "search Some Files, Or others",
}

# (environment, tool, tool of the remedy, refusal, text): rules, and nothing else.
SOUND = [
    (
        "desk",
        "move_event",
        "find_event",
        "no such event",
        "An event is moved by its identifier. Its title does not say which one that is; looking it "
        "up does.",
    ),
    (
        "desk",
        "move_event",
        "list_day",
        "hour taken",
        "Events cannot take the same hour of a day. It helps to see what the day holds already.",
    ),
    (
        "desk",
        "invite_guest",
        "find_contact",
        "no such contact",
        "Whoever is invited has to be known before. The contact may be missing, or its name may be "
        "another one.",
    ),
    (
        "desk",
        "pay_bill",
        "find_bill",
        "no such bill",
        "This identifier belongs to no bill. Which bill belongs to a vendor can be found out "
        "first.",
    ),
    (
        "desk",
        "pay_bill",
        "get_balance",
        "not enough money",
        "An account cannot pay more than its balance. Check it before you choose the account that "
        "pays.",
    ),
    (
        "desk",
        "write_file",
        "unlock_file",
        "file locked",
        "A locked file does not change. Whatever is written needs the file to be open first, which "
        "another tool does.",
    ),
    (
        "desk",
        "read_file",
        "list_folder",
        "no such file",
        "No file has that name in this place. Listing the folder shows which names exist.",
    ),
    (
        "desk",
        "create_file",
        "",
        "file exists",
        "The name is taken by another file. Use a name that does not exist yet, or change the "
        "existing file.",
    ),
    (
        "desk",
        "transfer_money",
        "",
        "same account",
        "Source and target are the same account, so no money would move. They have to be "
        "different.",
    ),
    (
        "desk",
        "reply_mail",
        "search_mail",
        "no such mail",
        "A reply needs the identifier of a mail that exists, and only a search returns it.",
    ),
    (
        "desk",
        "add_contact",
        "",
        "contact exists",
        "There is a contact of this name already, so a new one cannot be added.",
    ),
    (
        "desk",
        "change_address",
        "find_contact",
        "no such contact",
        "The contact is not known by this name, so there is no address to change. Find out how it "
        "is spelled.",
    ),
    (
        "bfcl",
        "cd",
        "ls",
        "cd: {folder}: No such directory. You cannot use path to change directory.",
        "One directory can be entered at a time, and it has to be inside the current directory. "
        "See what is there.",
    ),
    (
        "bfcl",
        "mv",
        "ls",
        "mv: cannot move {source}: No such file or directory",
        "The file to be moved is not in the current directory. It may be in another, or its name "
        "may differ.",
    ),
    (
        "bfcl",
        "cp",
        "",
        "cp: cannot copy {source}: No such file or directory",
        "Names of files are expected here, not paths. Change the directory until the file is in "
        "it.",
    ),
    (
        "bfcl",
        "startEngine",
        "lockDoors",
        "All doors must be locked before starting the engine.",
        "The doors of the car are not all locked. That condition comes before the engine.",
    ),
    (
        "bfcl",
        "startEngine",
        "pressBrakePedal",
        "Brake pedal needs to be pressed when starting the engine.",
        "The brake pedal is not pressed far enough, and it has to be before the engine is started.",
    ),
    (
        "bfcl",
        "book_flight",
        "authenticate_travel",
        "Token expired",
        "The access token is not accepted any more. A new one comes from authenticating again.",
    ),
    (
        "bfcl",
        "get_flight_cost",
        "get_nearest_airport_by_city",
        "No available route for the given airports.",
        "A route is known between airports, by their codes. The name of a city is none; some tool "
        "finds it.",
    ),
    (
        "bfcl",
        "send_message",
        "get_user_id",
        "Receiver {receiver_id} not found",
        "The receiver must be given by the identifier of a user. A name alone does not identify "
        "anybody here.",
    ),
    (
        "bfcl",
        "place_order",
        "trading_login",
        "User not authenticated. Please log in to place an order.",
        "Nobody is logged in, and without that no order is taken. Logging in is a step of its own.",
    ),
    (
        "bfcl",
        "cancel_order",
        "get_order_history",
        "Order with ID {order_id} not found.",
        "The identifier is not that of an order. Look at the history of orders to see which ones "
        "exist.",
    ),
    (
        "bfcl",
        "resolve_ticket",
        "get_user_tickets",
        "Ticket with ID {ticket_id} not found.",
        "There is no ticket with this identifier; the tickets of the user can be listed in order "
        "to find it.",
    ),
    (
        "bfcl",
        "comment",
        "search_tweets",
        "Tweet ID {tweet_id} not found.",
        "A comment needs the identifier of a tweet that exists. Search for the tweet before.",
    ),
    (
        "bfcl",
        "estimate_distance",
        "get_zipcode_based_on_city",
        "distance not found in database.",
        "The distance is known between zipcodes only. A city has to be turned into its zipcode "
        "first.",
    ),
    (
        "bfcl",
        "cat",
        "ls",
        "cat: {file_name}: No such file or directory",
        "Nothing of that name lies in the current directory. List its contents before you read "
        "from it.",
    ),
    (
        "bfcl",
        "fillFuelTank",
        "displayCarStatus",
        "Cannot fill gas above the tank capacity.",
        "The tank cannot hold more fuel than its capacity. Its status shows what is in it already.",
    ),
    (
        "bfcl",
        "post_tweet",
        "authenticate_twitter",
        "User not authenticated. Please authenticate before posting.",
        "A post needs a user who is authenticated, and at present there is none.",
    ),
]


def leaky_tasks() -> list[Task]:
    """A training and a held-out task whose ground truth holds the values."""
    made = []
    for task, values in zip(desk.generate(7, 1, 1), (VALUES[::2], VALUES[1::2]), strict=True):
        calls = tuple(Call("find_event", {"title": value}) for value in values)
        made.append(
            replace(
                task, script=("x",), calls=(calls,), tools=("find_event",), later_tools={}, id=""
            )
        )
    return made
