"""Which arguments a turn's words determine, and which they leave open."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from rods.analysis.containment import Text, key_of
from rods.analysis.profile import profile
from rods.calls import Call
from rods.composing.catalogue import (
    Catalogue,
    FromEarlierRecipe,
    FromResult,
    FromUser,
    PhraseBook,
    ProducedEntity,
    Recipe,
    RecipeStep,
    Story,
    Words,
)
from rods.config import Gates
from rods.environments.base import Parameter, Result
from rods.faults import verdict_of_gate
from rods.gates import check
from rods.gates.ground_truth import run
from rods.gates.similarity import SimilarityIndex
from rods.gates.values import (
    CHOOSES,
    mentions,
    noun_of,
    nouns_of,
    outlives,
    referent,
    referents,
    singled,
)
from tests.daemon.authors.catalogue_free import airline_environment as airline

FIND = Call("find_flights", {"origin": "Oslo"})
SEE = Call("see_flight", {"flight_id": "RA101"})
OTHER = Call("see_flight", {"flight_id": "RA118"})
REBOOK = Call("rebook", {"booking_id": 537, "flight_id": "RA118"})
ACCOUNT = Call("find_account", {"member": "Maren Oduya"})
REDEEM = Call("redeem_points", {"account_id": 318, "points": 9000})
BOOKED = Call("find_booking", {"passenger": "Tobias Lind"})
BAGS = Call("add_bags", {"booking_id": 537, "bags": 2})


def told(*turns: tuple[str, tuple[Call, ...]], environment: Any = airline.WORLD) -> list[str]:
    """What the gate says of a conversation."""
    script = tuple(text for text, _ in turns)
    calls = tuple(made for _, made in turns)
    task = replace(airline.seed(), script=script, calls=calls, id="")
    return [reason.text for reason in referents(environment, task, run(environment, task))]


ASKED = ("What is in the account of Maren Oduya?", (ACCOUNT,))


def test_values_that_stand_in_an_earlier_result_and_that_nobody_asks_for_are_refused() -> None:
    refused = told(ASKED, ("Please take points off a loyalty account.", (REDEEM,)))
    assert [reason.split(":")[1].strip() for reason in refused] == ["account_id=318", "points=9000"]
    assert '"that account" would' in refused[0] and "nobody says how much" in refused[1]


@pytest.mark.parametrize(
    "text",
    [
        "Take 9000 points off that account.",
        "Take all the points off it.",
        "Take 9,000 points off Maren Oduya's account.",
    ],
)
def test_words_that_say_a_value_or_refer_to_the_one_that_was_shown_determine_it(text: str) -> None:
    assert told(ASKED, (text, (REDEEM,))) == []


def test_one_of_several_is_referred_to_by_a_name_beside_it_and_by_no_bare_number_or_status() -> (
    None
):
    shown = [
        {"customer": 502, "name": "Theo Brandt", "status": "open", "owes": 12},
        {"customer": 504, "name": "Lena Fuchs"},
    ]
    for left, words in (("", "the customer with Theo Brandt"), ("name", "")):
        rows = [{key: value for key, value in row.items() if key != left} for row in shown]
        met = mentions(0, Call("show"), Result("", {"customers": rows}))
        meant = referent("customer", 502, {502}, met, set())
        assert meant is not None and meant.rival == 504 and meant.words == words
    met = mentions(0, Call("show"), Result("", {"customers": {"502": {"owes": 12}}}))
    assert (
        meant := referent("number", 502, {502}, met, {502})
    ) is not None and meant.words == "that customer"


def test_what_a_result_shows_under_the_arguments_own_name_may_be_meant_too() -> None:
    asked_for = mentions(0, Call("get_user_id", {"user": "Farid"}), Result("", {"user_id": 6}))
    found = mentions(1, Call("search", {"word": "Please"}), Result("", [{"receiver_id": 5}]))
    for met, rival in ((asked_for, None), ([*asked_for, *found], 5)):
        meant = referent("receiver_id", 6, {6}, met, set())
        assert meant is not None and meant.rival == rival


def test_a_look_up_of_the_same_turn_needs_no_word_but_how_much_is_meant_does() -> None:
    for text in ("Take 9000 points off for Maren Oduya.", "Take the points of Maren Oduya."):
        assert told((text, (ACCOUNT, REDEEM))) == []
    assert "how much" in told(("Take points off for Maren Oduya.", (ACCOUNT, REDEEM)))[0]


SHOWN = ("Which flights leave Oslo?", (FIND,))


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("Move booking 537 to that flight.", False),
        ("Move booking 537 to the flight at 18:05.", True),
        ("Move booking 537 to the second flight.", True),
        ("Move booking 537 to the first flight.", False),
        ("Move booking 537 to RA118.", True),
    ],
)
def test_of_two_results_the_words_must_tell_which_one_is_meant(text: str, clear: bool) -> None:
    refused = told(SHOWN, (text, (REBOOK,)))
    assert (refused == []) is clear
    assert clear or "'RA101' fits the words as well" in refused[0]


def test_that_one_means_the_last_and_the_only_one_of_its_turn() -> None:
    onto = ("Move booking 537 to that flight.", (REBOOK,))
    see = ("Show me RA101.", (SEE,))
    other = ("Show me RA118.", (OTHER,))
    assert told(see, other, onto) == []
    assert "'RA101' fits" in told(other, see, onto)[0]
    assert "fits the words as well" in told(("Show me RA101 and RA118.", (SEE, OTHER)), onto)[0]


def test_after_a_second_one_the_same_one_may_be_either() -> None:
    see = ("Show me RA101.", (SEE,))
    other = ("Show me RA118.", (OTHER,))
    for text in ("Move booking 537 to the flight.", "Move booking 537 to the same flight."):
        assert "'RA101' fits the words as well" in told(see, other, (text, (REBOOK,)))[0]
        assert told(other, (text, (REBOOK,))) == []


def test_an_indefinite_phrase_or_the_noun_of_another_thing_does_not_refer() -> None:
    found = ("Which booking has Tobias Lind?", (BOOKED,))
    assert told(found, ("Add 2 bags to that booking.", (BAGS,))) == []
    assert told(found, ("Add 2 bags to it.", (BAGS,))) == []
    for text in ("Add 2 bags to a booking.", "Add 2 bags for that passenger.", "Add 2 bags."):
        assert "do not refer to it" in told(found, (text, (BAGS,)))[0]
    assert (
        "do not refer to it"
        in told(("Find the booking of Tobias Lind. Add 2 bags to a booking.", (BOOKED, BAGS)))[0]
    )


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("Which flights leave that city?", True),
        ("Which flights leave it?", True),
        ("Which flights leave there, by its number?", False),  # a city has none
        ("Tell me of a booking and of its flights.", False),  # the booking's
    ],
)
def test_its_number_is_none_of_what_has_no_number_and_what_is_new_is_meant_rather(
    text: str, clear: bool
) -> None:
    seen = ("What is RA101?", (SEE,))  # from Oslo to Lisbon
    assert (told(seen, (text, (FIND,))) == []) is clear


def test_the_thing_that_a_value_is_said_behind_is_no_other_one() -> None:
    shown = ("Show me RA118.", (OTHER,))
    assert told(shown, ("Move booking 537 to the flight.", (REBOOK,))) == []
    assert "do not refer to it" in told(shown, ("Move the flight 537 as we said.", (REBOOK,)))[0]


def with_phrase_book() -> Any:
    """The airline, with recipes of which one gives a flight out of a list."""
    search = RecipeStep("find_flights", {"origin": FromUser("city", "city")})
    move = RecipeStep(
        "rebook",
        {"booking_id": FromUser("booking", "booking"), "flight_id": FromEarlierRecipe("flight")},
    )
    gift = {"flight": ProducedEntity(FromResult(0, (1, "flight_id")), "")}
    recipes = {
        "search": Recipe("search", (search,), ("list the flights from {city}",), gift),
        "move": Recipe("move", (move,), ("move booking {booking} to {flight}",)),
    }
    story = (Story("plain", ("Hello.",), ("Next.",), ("Last.",)),)
    things = {"flight": Words(("the second flight",), ("that flight",))}
    made = Catalogue(
        airline.NAME,
        recipes,
        {"city": lambda scene: ["Oslo"], "booking": lambda scene: [537]},
        PhraseBook({1: ("Please {0}.",)}, (), story, things, {}, {}),
        lambda *given: {},
        lambda *given: {},
        lambda *given: {},
        lambda *given: {},
    )
    environment: Any = copy.copy(airline.WORLD)
    environment.catalogue = lambda: made
    return environment


def test_what_the_phrase_book_explains_refers_to_no_one_of_several_either() -> None:
    shown = ("Please list the flights from Oslo.", (FIND,))
    environment = with_phrase_book()
    vague = told(
        shown, ("Please move booking 537 to that flight.", (REBOOK,)), environment=environment
    )
    assert "'RA101' fits the words as well" in vague[0]
    clear = ("Please move booking 537 to the second flight.", (REBOOK,))
    assert told(shown, clear, environment=environment) == []


def test_the_gate_has_a_switch_and_its_objections_may_be_mended_by_other_words() -> None:
    task = replace(
        airline.seed(1),
        script=("Which booking has Tobias Lind?", "Add 2 bags to a booking."),
        id="",
    )
    world: Any = airline.WORLD
    index = SimilarityIndex()
    shape = profile(world, task)

    def refused(gates: Gates) -> list[tuple[str, str]]:
        checked = check(world, task, shape, gates, index)
        return [
            (rejection.gate, verdict_of_gate(rejection.gate)) for rejection in checked.rejections
        ]

    assert refused(Gates()) == [("referents", "query_fixable")]
    assert refused(Gates(referents=False)) == []


def shown_again(
    text: str, name: str, described: str, met: Call, result: Any = "done", *others: Call
) -> str:
    """Why `text` does not determine the argument `name` whose value `met` had or gave; "" where it
    does."""
    parameter = Parameter(name, {"type": "string"}, required=True, description=described)
    value = next(iter(met.arguments.values())) if result == "done" else next(iter(result.values()))
    left = mentions(0, met, Result("", result))
    meant = referent(name, value, {key_of(value)}, left, set(), noun_of(parameter))
    assert meant is not None
    named = nouns_of(["folder", "flights", name, *(mention.name for mention in left)])
    elsewhere = [value for other in others for value in other.arguments.values()]
    return meant.fault(Text.of(text), 1, named, [], elsewhere, understood=False)


@pytest.mark.parametrize(
    ("description", "noun"),
    [
        ("The name of the file from current directory to display. No path.", "file"),
        ("Symbol that uniquely identifies the stock.", "stock"),
        ("The booking's number.", "booking"),
        ("The location the travel is from", "location"),
        ("Name of the file of current directory to perform the operation on.", "file"),
        ("User ID of the user to send the message to.", "user"),
        ("Use this field if you only want Fiscal Years that were changed later.", ""),
        ("", ""),
    ],
)
def test_a_description_says_what_its_argument_is_called(description: str, noun: str) -> None:
    assert noun_of(Parameter("x", {}, required=True, description=description)) == noun


def test_of_the_nouns_of_a_description_that_is_said_as_which_the_thing_was_met() -> None:
    """No user says "that file directory"."""
    made = mentions(0, Call("touch", {"file_name": "a.txt"}), Result("done"))
    moved = Parameter("source", {"type": "string"}, description="Name of the file or directory.")
    value = "a.txt"
    meant = referent("source", value, {key_of(value)}, made, set(), noun_of(moved))
    assert meant is not None and meant.words == "that file"


def test_no_text_and_no_empty_answer_is_what_a_thing_goes_by() -> None:
    """No user says "the file with None"."""
    moved = Parameter("file", {"type": "string"}, description="Name of the file.")
    for told, words in (
        ("None", ""),
        ("First line\nSecond line", ""),
        ("Plum Cake", "the file with Plum Cake"),
    ):
        met = [
            *mentions(0, Call("sort", {"file": "a.txt"}), Result(told, {"shown": told})),
            *mentions(0, Call("touch", {"file": "b.txt"}), Result("done")),
        ]
        meant = referent("file", "a.txt", {key_of("a.txt")}, met, set(), noun_of(moved))
        assert meant is not None and meant.words == words


def test_what_a_turn_has_just_dealt_with_outlives_what_was_only_listed_before() -> None:
    """A stock of a list is sold; the next turn's "that stock" is hardly another of the list."""
    listed = mentions(0, Call("list"), Result("", {"stock_list": ["AAPL", "GOOG"]}))
    sold = mentions(1, Call("sell", {"symbol": "AAPL"}), Result("", "done"))
    assert outlives("AAPL", "GOOG", [*listed, *sold])
    assert not outlives("GOOG", "AAPL", [*listed, *sold])
    assert not outlives("AAPL", "GOOG", listed)


def test_people_speak_of_a_thing_and_not_of_its_name_or_symbol() -> None:
    for argument, about, words in (
        ("file", "The file name to move.", "that file"),
        ("symbol", "Stock symbol to watch.", "that stock"),
        ("stocks", "List of stock symbols to filter.", "that stock"),
    ):
        left = mentions(0, Call("look", {argument: "menu"}), Result("", "done"))
        parameter = Parameter(argument, {"type": "string"}, description=about)
        meant = referent(argument, "menu", {key_of("menu")}, left, set(), noun_of(parameter))
        assert meant is not None and meant.words == words


def test_a_thing_goes_by_the_arguments_own_name_and_by_the_noun_of_its_description() -> None:
    copied = Call("cp", {"destination": "copy.txt"})
    about = "The name of the file to display."
    assert shown_again("What is in that file?", "file_name", about, copied) == ""
    assert shown_again("What is in that folder?", "file_name", about, copied)
    left = mentions(0, copied, Result("", "done"))
    meant = referent("file_name", "copy.txt", {"copy.txt"}, left, set(), "file")
    assert meant is not None and meant.words == "that file"
    flown = mentions(0, Call("fly", {"travel_from": "ORD"}), Result("", "done"))
    meant = referent("travel_from", "ORD", {key_of("ORD")}, flown, set())
    assert meant is not None and meant.words == "that one", "a relation is no thing"
    watched = Call("add", {"symbol": "QUAS"})
    assert shown_again("What does that stock cost?", "stock", "", watched) == ""


@pytest.mark.parametrize("text", ["What does that stock cost?", "What's that stock worth?"])
def test_an_auxiliary_before_that_makes_it_no_relative_pronoun(text: str) -> None:
    assert shown_again(text, "stock", "", Call("add", {"stock": "QUAS"})) == ""
    assert shown_again(
        "Which are the flights that leave?", "city", "", Call("see", {"city": "Oslo"})
    )


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("Send whoever wrote that a new mail.", True),
        ("Send them the flights.", True),
        ("Send them flights.", False),
        ("Say that a new mail comes from Oslo.", False),
    ],
)
def test_a_pronoun_ends_before_the_article_of_another_thing(text: str, clear: bool) -> None:
    met = Call("read_mail", {"address": "box12"})
    assert (shown_again(text, "address", "mail box", met) == "") == clear


def test_what_is_new_later_and_has_its_own_name_leaves_the_earlier_one_meant() -> None:
    copied = Call("sort", {"file_name": "copy.txt"})
    made = Call("touch", {"file_name": "overview.txt"})
    about = "The name of the file."
    first = "Open that file."
    new = f"{first} Then start a new file named overview.txt."
    assert shown_again(new, "file_name", about, copied, "done", made) == ""
    both = "Open that file, and then start a new file named overview.txt."
    assert shown_again(both, "file_name", about, copied, "done", made) == ""
    both = "Open that file, and then open a file."
    assert shown_again(both, "file_name", about, copied, "done", made)
    assert shown_again(f"{first} Then open a file.", "file_name", about, copied, "done", made)


def test_a_new_identifier_is_no_amount_though_it_is_a_number() -> None:
    added = Call("add_book", {"title": "Momo"})
    assert shown_again("Lend it to Emil.", "book", "", added, {"book_id": 707}) == ""
    assert (
        shown_again("Take it off.", "points", "", added, {"points": 707}) == "nobody says how much"
    )


def test_two_of_equal_standing_are_certain_and_other_words_a_doubt() -> None:
    def doubts(*turns: tuple[str, tuple[Call, ...]]) -> list[bool]:
        script = tuple(text for text, _ in turns)
        task = replace(airline.seed(), script=script, calls=tuple(made for _, made in turns), id="")
        given: Any = airline.WORLD
        return [reason.doubt for reason in referents(given, task, run(given, task))]

    onto = ("Move booking 537 to that flight.", (REBOOK,))
    assert doubts(("Show me RA101 and RA118.", (SEE, OTHER)), onto) == [False]
    new = ("Move booking 537 to the new flight.", (REBOOK,))  # a reader may know
    assert doubts(("Show me RA101 and RA118.", (SEE, OTHER)), new) == [True]
    assert doubts(ASKED, ("Take points off a loyalty account.", (REDEEM,))) == [True, True]


@pytest.mark.parametrize(
    ("text", "copies", "clear"),
    [
        ("Replace the text in the copy of the script.", 1, True),
        ("Replace the text in the copy that you just made.", 1, True),
        ("Replace the text in the copy of the script.", 2, False),
        ("Replace the text of the file.", 1, False),
    ],
)
def test_what_one_call_alone_made_goes_by_its_kind_and_a_complement_names_nothing(
    text: str, copies: int, clear: bool
) -> None:
    names = ["summary", "outline"][:copies]
    met = [
        mention
        for name in reversed(names)
        for mention in mentions(0, Call("cp", {"file": "script", "copy": name}), Result("", "ok"))
    ]
    met += mentions(0, Call("write", {"file": "summary"}), Result("", "ok"))
    folded = Text.of(text).folded
    assert singled(folded, "summary", {"summary"}, "file", met, {"script"}) == clear


@pytest.mark.parametrize(
    ("text", "before", "clear"),
    [
        ("Pay for it with my new card.", {"visa_1"}, True),
        ("Pay for it with the card I've just registered.", {"visa_1"}, True),
        ("Pay for it with the card.", {"visa_1"}, False),
        ("Pay for it with my new card.", set(), False),  # both are new
        ("Pay for it with my new card.", {"visa_1", "7749"}, False),  # none is
    ],
)
def test_the_new_one_is_the_only_one_that_the_conversation_made(
    text: str, before: set[Any], clear: bool
) -> None:
    met = mentions(0, Call("register", {"holder": "Tamara"}), Result("", {"card_id": "7749"}))
    met += mentions(1, Call("bookings", {}), Result("", {"card_id": "visa_1"}))
    folded = Text.of(text).folded
    known = set(map(key_of, before))
    assert singled(folded, "7749", {key_of("7749")}, "card_id", met, known) == clear


def test_nobody_has_to_speak_of_a_credential() -> None:
    login = Call("authenticate", {"client": "c1"})
    given = {"access_token": "251675"}
    assert shown_again("Book the journey.", "access_token", "", login, given) == ""
    assert shown_again("Book the journey.", "card", "", login, {"card": "251675"})


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("the seventh picture in that list", True),
        ("show the tenth entry of it", True),
        ("the tenth", False),
        ("that picture", False),
        ("invite box19 to the event that you have just planned", True),
        ("the copy you've made", True),
        ("the event that you see", False),
        ("send whoever wrote the mail that you read to me a new mail", True),
    ],
)
def test_a_place_in_a_long_list_and_what_was_done_with_it_are_for_a_reader_to_judge(
    words: str, chosen: bool
) -> None:
    assert bool(CHOOSES.search(words)) == chosen
