"""Recipes of the travel account: 18 tools.

Most of them need an access token. Users say it once (or sign in), and from then on it is known: every such recipe
stands here twice, the second time (`…_on`) for a token that is on the table.
Things: `token` (unsaid), `card` (an id), `booking` (an id), `airport` (a code), `fare` (a price), `money` (a sum).
"""

from __future__ import annotations

from functools import partial

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import travel_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.phrases import story
from worlds.bfcl.catalogue.travel_worlds import GROUP

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)
_SAYS = ("(with|using) (the|my) access token {token}", "(my|the) access token is {token}")


def _guarded(
    name: str, steps: str, *phrases: str, unless: str = "", gives: str = "", ends: str = "", short: bool = False
) -> None:
    """A recipe that needs the token, which stands as TOKEN in its steps: said, and known."""
    said = (f"{phrase}, {says}" for phrase in phrases for says in _SAYS)
    _add(
        name,
        steps.replace("TOKEN", "token:token"),
        *said,
        unless=f"{unless} token",
        gives=f"{gives} token=token:token/token",
        ends=ends,
        short=short,
    )
    _add(f"{name}_on", steps.replace("TOKEN", "^token"), *phrases, unless=unless, gives=gives, ends=ends, short=short)


# --- the session
_SIGN_IN = (
    "authenticate_travel client_id=client:client client_secret=secret:secret refresh_token=refresh:refresh"
    " grant_type=grant:grant user_first_name=first:first_name user_last_name=last:last_name"
)
_add(
    "tv_sign_in",
    _SIGN_IN,
    "sign me in to the travel system with {grant} access, client id {client}, secret {secret} and refresh token"
    " {refresh}, and my name is {first} {last}",
    "authenticate me for travel with the client id {client}, the secret {secret} and the refresh token {refresh};"
    " I need {grant} access, my first name is {first} and my last name {last}",
    "log me in for travel bookings as {first} {last}: client id {client}, secret {secret}, refresh token {refresh}, "
    "{grant} access",
    "open a travel session with {grant} access for {first} {last}; the client id is {client}, the secret is {secret} "
    "and the refresh token is {refresh}",
    "get me into the travel system: I am {first} {last}, {client} is my client id, {secret} my secret, {refresh} my "
    "refresh token, and {grant} access will do",
    unless="token",
    gives="token=0.access_token/",
)
_add(
    "tv_status",
    "travel_get_login_status",
    "(check|tell me) whether I am (signed in to|logged in to) the travel system",
    "see if my travel session is (active|still active)",
    "find out if the travel system knows me at the moment",
)
_add(
    "tv_verify",
    "verify_traveler_information first_name=first:first_name last_name=last:last_name date_of_birth=born:birthday"
    " passport_number=passport:passport",
    "(verify|check) my traveler details: I am {first} {last}, born on {born}, and my passport number is {passport}",
    "make sure that my details are right, which are {first} {last}, date of birth {born}, passport {passport}",
)
_add(
    "tv_fiscal_year",
    "get_budget_fiscal_year",
    "(tell me|look up) (which fiscal year the travel budget belongs to|the fiscal year of the travel budget)",
)
# --- airports and fares
_add(
    "tv_airports",
    "list_all_airports",
    "(list|show me) (all airports|every airport) that (can be booked|I can fly to)",
    "give me the full list of airports",
)
_add(
    "tv_airport",
    "get_nearest_airport_by_city location=city:city",
    "(tell me|look up|find) the airport (nearest|closest) to {city}",
    "find out which airport serves {city}",
    gives="airport=0.nearest_airport/city",
)
_FLIGHT = "travel_date=date:flight_date travel_class=cabin:cabin"
_add(
    "tv_fare",
    f"get_flight_cost travel_from=start:airport travel_to=goal:goal {_FLIGHT}",
    "(tell me|look up|check) what a (ticket|seat) in {cabin} class from {start} to {goal} costs on {date}",
    "(get me|find) the fare for flying in {cabin} class from {start} to {goal} on {date}",
)
_add(
    "tv_fare_city",
    "get_nearest_airport_by_city location=city:city;"
    f" get_flight_cost travel_from=0.nearest_airport travel_to=goal:goal {_FLIGHT}",
    "(tell me|check) what a flight in {cabin} class from the airport nearest to {city} to {goal} costs on {date}",
    gives="airport=0.nearest_airport/city",
)
_add(
    "tv_fare_cities",
    "get_nearest_airport_by_city location=city:city; get_nearest_airport_by_city location=other:city_on;"
    f" get_flight_cost travel_from=0.nearest_airport travel_to=1.nearest_airport {_FLIGHT}",
    "find the airports nearest to {city} and {other} and (tell me|check) what a flight in {cabin} class between "
    "them costs on {date}",
    "(work out|tell me) the price of flying in {cabin} class from {city} to {other} on {date}",
    gives="airport=0.nearest_airport/city",
)
_add(
    "tv_fare_on",
    f"get_flight_cost travel_from=^airport travel_to=goal:goal {_FLIGHT}",
    "(tell me|check) what a (ticket|seat) in {cabin} class from {airport} to {goal} costs on {date}",
)
_add(
    "tv_fare_list",
    f"list_all_airports; get_flight_cost travel_from=0.0 travel_to=0.1 {_FLIGHT}",
    "list all airports and (tell me|check) what a flight in {cabin} class from the first to the second one costs on "
    "{date}",
)
_add(
    "tv_fare_last",
    f"list_all_airports; get_flight_cost travel_from=0.0 travel_to=0.22 {_FLIGHT}",
    "list all airports and (tell me|check) the fare in {cabin} class from the first to the last of them on {date}",
)
# --- bookings
_BOOK = f"book_flight access_token=TOKEN card_id=card:card travel_from=start:airport travel_to=goal:goal {_FLIGHT}"
_PHRASE_BOOK = (
    "book me a (flight|seat) in {cabin} class from {start} to {goal} on {date} (and charge it to|paid with) {card}",
    "(reserve|get me) a seat in {cabin} class from {start} to {goal} for {date}, paying with {card}",
)
_guarded("tv_book", _BOOK, *_PHRASE_BOOK, gives="booking=0.booking_id/goal card=card:card/card")
_guarded(
    "tv_fare_book",
    f"get_flight_cost travel_from=start:airport travel_to=goal:goal {_FLIGHT}; {_BOOK}",
    "check the fare in {cabin} class from {start} to {goal} on {date} and book (that flight|it) with {card}",
    gives="booking=1.booking_id/goal card=card:card/card",
)
_guarded(
    "tv_book_invoice",
    f"{_BOOK}; retrieve_invoice access_token=TOKEN booking_id=0.booking_id",
    "book me a seat in {cabin} class from {start} to {goal} on {date} with {card} and show me the invoice (for it|)",
    gives="booking=0.booking_id/goal card=card:card/card",
)
_guarded(
    "tv_book_city",
    "get_nearest_airport_by_city location=city:city; book_flight access_token=TOKEN card_id=card:card"
    f" travel_from=0.nearest_airport travel_to=goal:goal {_FLIGHT}",
    "book me a flight in {cabin} class from the airport nearest to {city} to {goal} on {date}, paid with {card}",
    gives="booking=1.booking_id/goal card=card:card/card airport=0.nearest_airport/city",
)
_guarded(
    "tv_book_cities",
    "get_nearest_airport_by_city location=city:city; get_nearest_airport_by_city location=other:city_on;"
    " book_flight access_token=TOKEN card_id=card:card travel_from=0.nearest_airport travel_to=1.nearest_airport"
    f" {_FLIGHT}",
    "find the airports nearest to {city} and {other} and book me a flight in {cabin} class between them on {date} "
    "with {card}",
    gives="booking=2.booking_id/other card=card:card/card airport=0.nearest_airport/city",
)
_guarded(
    "tv_book_from",
    f"book_flight access_token=TOKEN card_id=card:card travel_from=^airport travel_to=goal:goal {_FLIGHT}",
    "book me a flight in {cabin} class from {airport} to {goal} on {date}, paid with {card}",
    gives="booking=0.booking_id/goal card=card:card/card",
)
_guarded(
    "tv_book_again",
    f"book_flight access_token=TOKEN card_id=^card travel_from=start:airport travel_to=goal:goal {_FLIGHT}",
    "book me a (flight|seat) in {cabin} class from {start} to {goal} on {date} with {card}",
    "reserve me a {cabin} class seat from {start} to {goal} on {date}, to be paid with {card}",
    "get me from {start} to {goal} in {cabin} class on {date} and pay with {card}",
    "put me on a flight from {start} to {goal} on {date}, {cabin} class, using {card}",
    gives="booking=0.booking_id/goal",
)
_guarded(
    "tv_invoice",
    "retrieve_invoice access_token=TOKEN booking_id=^booking",
    "(show|get) me the invoice (for|of) {booking}",
    "pull up the bill for {booking}",
)
_guarded(
    "tv_old_invoice",
    "retrieve_invoice access_token=TOKEN booking_id=number:old_booking",
    "(show|get) me the invoice (for|of) the booking {number}",
)
_guarded(
    "tv_cancel",
    "cancel_booking access_token=TOKEN booking_id=^booking",
    "cancel {booking}",
    "call off {booking}, my plans have changed",
    ends="booking",
)
_guarded(
    "tv_old_cancel",
    "cancel_booking access_token=TOKEN booking_id=number:old_booking",
    "cancel (my booking|the booking) {number}",
)
_guarded(
    "tv_book_cancel",
    f"{_BOOK}; cancel_booking access_token=TOKEN booking_id=0.booking_id",
    "book a seat in {cabin} class from {start} to {goal} on {date} with {card}, and then cancel it right away to "
    "test the refund",
    ends="booking",
)
_guarded(
    "tv_history",
    "get_booking_history access_token=TOKEN",
    "(show me all my bookings|list my booking history|show me what I have booked)",
    "go through (my bookings|everything I have booked) (so far|)",
)
_add(
    "tv_support",
    "contact_customer_support booking_id=^booking message=support:support",
    "(tell|write to) customer support about {booking}: '{support}'",
    "contact customer support about {booking} with the message '{support}'",
)
_add(
    "tv_old_support",
    "contact_customer_support booking_id=number:old_booking message=support:support",
    "(tell|write to) customer support about the booking {number}: '{support}'",
    "contact customer support about booking {number} and say '{support}'",
)
_guarded(
    "tv_insure",
    "purchase_insurance access_token=TOKEN insurance_type=cover:cover booking_id=^booking "
    "insurance_cost=premium:premium"
    " card_id=card:card",
    "(buy|take out) {cover} insurance for {booking} at {premium} dollars, paid with {card}",
    "insure {booking}: the {cover} cover for {premium} dollars, charged to {card}",
)
_guarded(
    "tv_insure_again",
    "purchase_insurance access_token=TOKEN insurance_type=cover:cover booking_id=^booking "
    "insurance_cost=premium:premium"
    " card_id=^card",
    "(buy|take out) {cover} insurance for {booking} at {premium} dollars, charged to {card}",
)
_guarded(
    "tv_old_insure",
    "purchase_insurance access_token=TOKEN insurance_type=cover:cover booking_id=number:old_booking"
    " insurance_cost=premium:premium card_id=card:card",
    "(buy|take out) {cover} insurance for the booking {number} at {premium} dollars, paid with {card}",
)
# --- cards and budget
_add(
    "tv_cards",
    "get_all_credit_cards",
    "(list|show me) (all my credit cards|every credit card on my account)",
    "tell me which credit cards (are registered|I have on file)",
)
_guarded(
    "tv_balance",
    "get_credit_card_balance access_token=TOKEN card_id=card:card",
    "(tell me|check|show me) the balance of {card}",
    "(find out|check) how much money is left on {card}",
    "see what {card} still has to offer",
    "look up what I can still spend with {card}",
    gives="card=card:card/card",
)
_guarded(
    "tv_balance_again",
    "get_credit_card_balance access_token=TOKEN card_id=^card",
    "(tell me|check) how much money is left on {card}",
    "look up the balance of {card}",
    "see what I can still spend with {card}",
    "find out how much money there still is on {card}",
    "get me the amount that {card} still has",
)
_guarded(
    "tv_register",
    "register_credit_card access_token=TOKEN card_number=number:new_card expiration_date=expiry:expiry"
    " cardholder_name=holder:holder card_verification_number=code:cvv",
    "register a new credit card for me: number {number}, valid until {expiry}, cardholder {holder}, verification "
    "number {code}",
    "add the card {number} to my account, it belongs to {holder}, expires {expiry} and has the verification "
    "number {code}",
    "store the card number {number} of {holder} for my trips; it expires {expiry} and its verification number is "
    "{code}",
    "put one more credit card on file, {number} in the name of {holder}, good until {expiry} and with {code} as "
    "verification number",
    gives="card=0.card_id/the-new-card",
)
_guarded(
    "tv_register_balance",
    "register_credit_card access_token=TOKEN card_number=number:new_card expiration_date=expiry:expiry"
    " cardholder_name=holder:holder card_verification_number=code:cvv;"
    " get_credit_card_balance access_token=TOKEN card_id=0.card_id",
    "register the card {number} of {holder}, valid until {expiry}, verification number {code}, and tell me its balance",
    gives="card=0.card_id/the-new-card",
)
_guarded(
    "tv_budget",
    "set_budget_limit access_token=TOKEN budget_limit=budget:budget",
    "set my travel budget to {budget} dollars",
    "limit my travel spending to {budget} dollars",
    "cap the travel budget at {budget} dollars",
    "make {budget} dollars the limit of my travel budget",
    "see to it that my trips cost {budget} dollars at most, as the budget limit",
)
_guarded(
    "tv_budget_fare",
    f"get_flight_cost travel_from=start:airport travel_to=goal:goal {_FLIGHT};"
    " set_budget_limit access_token=TOKEN budget_limit=0.travel_cost_list.0",
    "check what flying from {start} to {goal} in {cabin} class costs on {date} and set my travel budget to "
    "exactly that",
    short=True,
)
_add(
    "tv_exchange",
    'compute_exchange_rate base_currency=!"USD" target_currency=currency:currency value=sum:sum',
    "(work out|tell me) how much {sum} US dollars are in {currency}",
    "convert {sum} US dollars to {currency}",
)
_add(
    "tv_exchange_back",
    'compute_exchange_rate base_currency=currency:currency target_currency=!"USD" value=sum:foreign_sum',
    "(work out|tell me) how many US dollars I get for {sum} {currency}",
    "convert {sum} {currency} to US dollars",
    "tell me the worth of {sum} {currency} in US dollars",
    "find out what {sum} {currency} come to in US dollars",
    gives="money=0.exchanged_value/",
)
_guarded(
    "tv_budget_exchange",
    'compute_exchange_rate base_currency=currency:currency target_currency=!"USD" value=sum:foreign_sum;'
    " set_budget_limit access_token=TOKEN budget_limit=0.exchanged_value",
    "convert {sum} {currency} to US dollars and (set my travel budget to|use) that amount",
    "set my travel budget to what {sum} {currency} are in US dollars",
)
_guarded(
    "tv_budget_money",
    "set_budget_limit access_token=TOKEN budget_limit=^money",
    "set my travel budget to {money}",
    "cap my travel spending at {money}",
)

PART = Part(
    GROUP,
    RECIPES,
    domains=travel_worlds.DOMAINS,
    make=travel_worlds.make,
    pad=travel_worlds.pad,
    stories=(
        story(
            "journey",
            GROUP,
            (
                "I'm planning a trip with {friend}.",
                "{friend} invited me to the {topic}, so I need to travel.",
                "My holidays are (coming up|near) and nothing is arranged yet.",
                "I have to sort out my travel plans (today|this evening).",
                "(I finally got|We got) a few days off, so let's plan a trip.",
            ),
            (
                "(Great|Lovely), the trip is taking shape.",
                "{friend} will be happy about that.",
                "Now on with the arrangements.",
                "(Good|Okay), that helps me decide.",
                "I can almost see the beach.",
                "There is more to arrange.",
            ),
            (
                "That is the last thing for my trip.",
                "Then everything is arranged.",
                "One more detail before I start packing.",
                "{friend} is already packing, so just this.",
            ),
        ),
        story(
            "business trip",
            GROUP,
            (
                "My company sends me to the {topic}.",
                "I travel for work a lot and need some help.",
                "{friend} from accounting wants my travel matters in order.",
                "The {topic} is out of town this year.",
            ),
            (
                "{friend} also asked for this.",
                "(Thanks|Good), noted.",
                "Next on my list.",
                "(Alright|Fine), let's continue with the trip.",
                "My boss will ask about this, too.",
            ),
            (
                "That's the last item from accounting.",
                "Finally, one more thing.",
                "After that my trip is settled.",
            ),
        ),
    ),
    things={
        "token": Words(("my access token",), ("the same token",)),
        "card": Words(("{noun}",), ("the same card", "that card")),
        "booking": Words(
            ("the flight to {noun}", "my flight to {noun}"), ("that flight", "that booking", "the flight")
        ),
        "airport": Words(("the airport of {noun}",), ("that airport",)),
        "money": Words(("the amount you worked out",), ("that amount", "exactly that much")),
    },
    vague={
        "card": ("one of my cards",),
        "airport": ("my usual airport",),
        "goal": ("my favorite place",),
        "city": ("the city where my aunt lives", "my home town"),
        "sum": ("some",),
        "budget": ("a certain number of",),
        "premium": ("a few",),
        "cover": ("suitable",),
        "cabin": ("my usual",),
    },
    supply={
        "card": ("Use {value}.", "I mean {value}.", "The card is {value}."),
        "airport": ("That would be {value}.", "I mean {value}."),
        "goal": ("That would be {value}.", "I want to go to {value}."),
        "city": ("That is {value}.", "I mean {value}."),
        "sum": ("Make it {value}.", "I mean {value}."),
        "budget": ("Make it {value} dollars.", "I mean {value}."),
        "premium": ("Make it {value} dollars.", "The price is {value} dollars."),
        "cover": ("I mean {value}.", "Take the {value} one."),
        "cabin": ("I mean {value} class.", "Take {value} class."),
    },
    again={"card": ("the same card",)},
    families={"city": "any_city city_on", "sum": "foreign_sum"},
    siblings=(
        ("get_flight_cost", "book_flight"),
        ("cancel_booking", "retrieve_invoice"),
        ("get_all_credit_cards", "get_credit_card_balance"),
        ("list_all_airports", "get_nearest_airport_by_city"),
        ("register_credit_card", "get_all_credit_cards"),
    ),
    swaps={
        "get_flight_cost": ("travel_from", "travel_to"),
        "book_flight": ("travel_from", "travel_to"),
        "compute_exchange_rate": ("base_currency", "target_currency"),
    },
    silent=frozenset({"token"}),
    common="authenticate_travel book_flight",
)
