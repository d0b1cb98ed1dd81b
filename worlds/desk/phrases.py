"""Desk's phrase book apart from the recipes' own phrases: frames, stories, references back, blurs."""

from __future__ import annotations

from rods.composing.catalogue import PhraseBook, Story, Words

FRAMES = {
    1: (
        "Please {0}.",
        "Can you {0}?",
        "Could you {0}, please?",
        "I want you to {0}.",
        "I need you to {0}.",
        "Be so kind and {0}.",
        "{0}, please.",
    ),
    2: (
        "Please {0} and then {1}.",
        "Can you {0} and also {1}?",
        "First {0}, after that {1}.",
        "I want you to {0}. Then {1}.",
        "{0}, please. Also {1}.",
    ),
    3: (
        "Please {0}, then {1} and last {2}.",
        "First {0}, after that {1} and then {2}.",
        "{0}, {1} and {2}, please.",
        "I need three things: {0}, {1} and {2}.",
    ),
}
LINKS = ("Next,", "Then,", "Now,", "One more thing:", "After that,", "Thanks.", "Good.", "Fine, and now")
STORIES = (
    Story(
        "preparation",
        (
            "I am getting ready for the {topic}.",
            "The {topic} is near and I need help.",
            "We prepare the {topic} today.",
        ),
        ("For the {topic} we need more.", "There is more to do for the {topic}.", "Good, the {topic} comes closer."),
        ("Last thing for the {topic}.", "Then the {topic} can start.", "One last step and the {topic} is ready."),
    ),
    Story(
        "trouble",
        ("We have trouble with the {topic}.", "The {topic} went wrong and I must act.", "Help me save the {topic}."),
        ("The {topic} still needs work.", "That helps, but the {topic} is not safe.", "More trouble with the {topic}."),
        (
            "This should end the {topic} trouble.",
            "Then we are done with the {topic}.",
            "One last thing for the {topic}.",
        ),
    ),
    Story(
        "handover",
        ("I take over the {topic} from a friend.", "The {topic} is my job now.", "From now on I run the {topic}."),
        ("Now on with the {topic}.", "The {topic} also asks for this.", "Let us go on with the {topic}."),
        (
            "That is all for the {topic} after this.",
            "Last part of the {topic} for today.",
            "And to close the {topic} work:",
        ),
    ),
    Story(
        "cleaning",
        ("I clean up after the {topic}.", "The {topic} is over and left some work.", "Let us close the {topic}."),
        (
            "There is still something left from the {topic}.",
            "On with the {topic} clean up.",
            "The {topic} left this too.",
        ),
        ("Then the {topic} is closed for good.", "One more and we forget the {topic}.", "Last job after the {topic}."),
    ),
)
THINGS = {
    "person": Words(("{noun}",), ("them", "that person")),
    "mail": Words(("the {noun} mail", "the mail about the {noun}"), ("that mail", "this mail", "the mail you found")),
    "sender": Words(("the sender of the {noun} mail",), ("the sender", "that sender")),
    "event": Words(("the {noun}", "the {noun} event"), ("that event", "this event", "the event")),
    "file": Words(("the {noun}", "the {noun} file"), ("that file", "this file", "the file")),
    "bill": Words(("the bill of {noun}", "the {noun} bill"), ("that bill", "this bill", "the bill")),
}
VAGUE = {
    "amount": ("some money", "some amount"),
    "day": ("some day", "one day"),
    "hour": ("some hour", "a good hour"),
    "contact": ("someone", "a friend"),
    "account": ("some account", "one account"),
    "room": ("some room", "a good room"),
    "folder": ("some folder", "one folder"),
    "text": ("something", "some words"),
    "team": ("some team", "one team"),
    "address": ("some address", "one address"),
}
SUPPLY = {
    "amount": ("The amount is {value}.", "I mean {value}.", "Make it {value}."),
    "day": ("I mean {value}.", "The day is {value}.", "Take {value}."),
    "hour": ("I mean {value}.", "The hour is {value}.", "Make it {value}."),
    "contact": ("I mean {value}.", "It is {value}.", "The name is {value}."),
    "account": ("I mean {value}.", "The account is {value}.", "Take {value}."),
    "room": ("Take {value}.", "The room is {value}."),
    "folder": ("I mean {value}.", "The folder is {value}.", "Take {value}."),
    "text": ("It should say {value}.", "The text is {value}."),
    "team": ("I mean {value}.", "The team is {value}."),
    "address": ("The address is {value}.", "I mean {value}."),
}
AGAIN = {
    "contact": ("the same person",),
    "account": ("the same account",),
    "day": ("the same day",),
    "amount": ("the same amount",),
    "folder": ("the same folder",),
    "room": ("the same room",),
    "text": ("the same words",),
}
BOOK = PhraseBook(FRAMES, LINKS, STORIES, THINGS, VAGUE, SUPPLY, AGAIN, longest=25)
