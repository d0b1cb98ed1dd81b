"""The phrase book that all BFCL classes share: frames, links, and stories that suit any of them."""

from __future__ import annotations

from rods.composing.catalogue import Story

LONGEST = 110  # words a turn
FRAMES = {
    1: (
        "Please {0}.",
        "Could you {0}?",
        "Can you {0}?",
        "I'd like you to {0}.",
        "I need you to {0}.",
        "Would you {0}, please?",
        "Go ahead and {0}.",
        "{0}, please.",
        "{0}.",
        "It would help if you could {0}.",
        "Kindly {0}.",
        "I want you to {0}.",
        "What I need is this: {0}.",
    ),
    2: (
        "Please {0}, and then {1}.",
        "Could you {0}? After that, {1}.",
        "First {0}. Then {1}.",
        "Can you {0} and also {1}?",
        "I'd like you to {0}. Once that is done, {1}.",
        "{0}. When you have finished, {1}.",
        "Would you {0}, please? I also need you to {1}.",
        "Two things: {0}, and {1}.",
        "Start by doing this: {0}. Next, {1}.",
    ),
    3: (
        "Please {0}, then {1}, and finally {2}.",
        "First {0}. Then {1}. At the end, {2}.",
        "Could you {0}? After that, {1}, and last of all {2}.",
        "I need three things from you: {0}; {1}; and {2}.",
        "{0}. Next, {1}. Once you are done, {2}.",
        "Can you {0}, {1}, and then {2}?",
    ),
}
LINKS = (
    "Next,",
    "Then,",
    "Thanks.",
    "Great.",
    "Good, that works.",
    "Perfect, thank you.",
    "Now for the next step.",
    "One more thing.",
    "Alright, moving on.",
    "That was quick.",
    "There is something else.",
)
STORIES = (
    Story(
        "preparation",
        (
            "I'm getting things ready for the {topic}.",
            "The {topic} is coming up and I have a lot to do.",
            "We are in the middle of preparing the {topic}.",
            "I could use a hand with the {topic}.",
        ),
        (
            "That takes care of one item for the {topic}.",
            "There is more to do for the {topic}.",
            "Good, the {topic} is taking shape.",
            "Back to the {topic}.",
            "On to the next point on my list.",
        ),
        (
            "One last thing before the {topic}.",
            "After this I'm done with the {topic} for today.",
            "This wraps things up for the {topic}.",
        ),
        frozenset({"GorillaFileSystem"}),
    ),
    Story(
        "handover",
        (
            "I've just taken over the {topic} from {friend}.",
            "{friend} asked me to look after the {topic} this week.",
            "{friend} is away, so the {topic} is on my desk now.",
        ),
        (
            "{friend} left a note about this as well.",
            "Next item on the list that {friend} gave me.",
            "{friend} would want this done too.",
            "Thanks, that saves me time.",
        ),
        (
            "That's everything from {friend}'s list after this.",
            "Last point for the {topic}.",
            "One final request before I report back to {friend}.",
        ),
        frozenset({"GorillaFileSystem"}),
    ),
    Story(
        "hurry",
        (
            "I have ten minutes before my next call.",
            "I'm in a bit of a rush today.",
            "Quick one while I wait for {friend}.",
        ),
        (
            "Still a few minutes left, so let's continue.",
            "Good. {friend} just asked me for something else.",
            "While we are at it, there is this.",
            "Now that this is settled, let's go on.",
        ),
        (
            "Last one before I have to run.",
            "{friend} is here now, so only one more thing.",
            "This is the final thing, I promise.",
        ),
    ),
    Story(
        "curious",
        (
            "{friend} and I were talking about this yesterday.",
            "I promised {friend} to sort this out today.",
            "Let me explain what I'm after.",
        ),
        (
            "Interesting. Let's keep going.",
            "That answers one question, here is another request.",
            "{friend} will be glad to hear that.",
            "Good to know.",
        ),
        (
            "And then I'll leave you alone.",
            "To finish, I have one more request.",
            "That leaves just this.",
        ),
    ),
)
