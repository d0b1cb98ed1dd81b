"""The phrase book that all BFCL classes share: frames, links, and stories that suit any of them."""

from __future__ import annotations

from rods.composing.catalogue import Story
from worlds.bfcl.catalogue.notation import alternatives

LONGEST = 110  # words a turn


def lines(*texts: str) -> tuple[str, ...]:
    """Every line that texts with alternatives stand for."""
    return tuple(line for text in texts for line in alternatives(text, most=40))


def story(name: str, groups: str, opening: tuple[str, ...], later: tuple[str, ...], closing: tuple[str, ...]) -> Story:
    """A story for the API classes in `groups` (separated by blanks; none: for all). Users do not comment on everything:
    every other later turn and every third last one go without a lead."""
    nexts, lasts = lines(*later), lines(*closing)
    nexts += ("",) * len(nexts)
    lasts += ("",) * (len(lasts) // 2)
    return Story(name, lines(*opening), nexts, lasts, frozenset(groups.split()))


FRAMES = {
    1: lines(
        "(Please|Kindly|Now please) {0}.",
        "(Could|Can|Would) you {0}(, please|)?",
        "Could you (quickly|also|kindly) {0}?",
        "I'd (like|love) you to {0}.",
        "I (need|want) you to {0}.",
        "(Go ahead and|Just|Simply) {0}.",
        "{0}(, please.|, if you can.|, would you?|.)",
        "It would (help|be great|be nice) if you could {0}.",
        "(I'd be glad|I would appreciate it) if you could {0}.",
        "Is it possible for you to {0}?",
        "(Help me out and|Do me a favor and) {0}.",
        "What I (need|want) is for you to {0}.",
    )
    + ("{0}.",) * 8  # the plain forms are the commonest
    + ("Please {0}.",) * 4,
    2: lines(
        "(Please|Kindly) {0}, and then {1}.",
        "(Could|Can|Would) you {0}? (After that|Afterwards|Then), {1}.",
        "(First|To begin with,) {0}. (Then|After that,) {1}.",
        "Can you {0} and also {1}?",
        "I'd like you to {0}. (Once that is done|When you are through), {1}.",
        "{0}. (When you have finished|Once you have it|Right after that), {1}.",
        "I need you to {0}, and after that please {1}.",
        "(Two things, please|There are two things): {0}, and {1}.",
        "(Start with this|Begin like this): {0}. (Next|Then), {1}.",
        "It would be great if you could {0}. In addition, {1}.",
    )
    + ("{0}. Then {1}.", "{0}, and {1}.") * 3,
    3: lines(
        "Please {0}, then {1}, and (finally|at last|in the end) {2}.",
        "First {0}. Then {1}. (At the end|To finish|Finally), {2}.",
        "(Could|Can) you {0}? (After that|Then), {1}, and last of all {2}.",
        "(I need three things|There are three things): {0}; {1}; and {2}.",
        "{0}. (Next|Then), {1}. Once you are done, {2}.",
        "(Can|Would) you {0}, {1}, and then {2}?",
        "I'd like you to {0}. After that, {1}, and when this is done {2}.",
    )
    + ("{0}. Then {1}. Finally, {2}.",) * 2,
}
LINKS = lines(
    "(Next|Then|Now),",
    "(Thanks|Great|Perfect|Good|Nice|Alright|Okay).",
    "(Good, that works|That was quick|That helps|Very good).",
    "(Now for the next step|Now something else|There is something else|One more thing).",
)
STORIES = (
    story(
        "preparation",
        "GorillaFileSystem",
        (
            "(I'm|We are) getting (things|everything) ready for the {topic}.",
            "The {topic} is (coming up|close) and (I have a lot to do|there is still much to do).",
            "(We are in the middle of|I'm busy with) preparing the {topic}.",
            "I could use (a hand|some help) with the {topic}.",
            "All my (papers|notes|documents) about the {topic} are on this machine.",
        ),
        (
            "That (takes care of|settles) one item for the {topic}.",
            "There is more to do (for the {topic}|before the {topic}).",
            "(Good|Great|Fine), the {topic} is taking shape.",
            "(Back to|Now on with) the {topic}.",
            "(On to|Let's take) the next point on my list.",
            "The {topic} (won't wait|needs more than that).",
        ),
        (
            "One last thing (before|for) the {topic}.",
            "After this I'm done with the {topic} for (today|now).",
            "This (wraps things up|closes the matter) for the {topic}.",
            "Then the {topic} (can start|can come).",
        ),
    ),
    story(
        "handover",
        "GorillaFileSystem",
        (
            "I've (just|recently) taken over the {topic} from {friend}.",
            "{friend} asked me to look after the {topic} (this week|for a while).",
            "{friend} is (away|on leave), so the {topic} is (on my desk|my job) now.",
            "These are the files that {friend} kept for the {topic}.",
        ),
        (
            "{friend} left a note about this (as well|too).",
            "(Next item|The next thing) on the list that {friend} gave me.",
            "{friend} would (want|like) this done too.",
            "(Thanks|Great), that saves me (time|some work).",
            "The handover from {friend} also (mentions|asks for) this.",
        ),
        (
            "That's (everything|all) from {friend}'s list after this.",
            "(Last|Final) point for the {topic}.",
            "One (final|last) request before I (report back to|call) {friend}.",
        ),
    ),
    story(
        "hurry",
        "",
        (
            "I have (ten|five|only fifteen) minutes before my next (call|meeting).",
            "I'm in (a bit of a rush|a hurry) today.",
            "Quick one while I wait for {friend}.",
            "(Let's make this quick|Let's be quick about this).",
            "My (bus|train) leaves soon, so let's start.",
        ),
        (
            "Still a few minutes left, so let's continue.",
            "(Good|Okay). {friend} (just asked me|called and asked) for something else.",
            "While we are at it, there is (this|something more).",
            "Now that this is (settled|done), let's go on.",
            "That was fast, (thank you|thanks).",
            "I still have a moment.",
        ),
        (
            "(Last one|One more) before I have to run.",
            "{friend} is here now, so only one more thing.",
            "This is the (final|last) thing, I promise.",
            "My time is nearly up.",
        ),
    ),
    story(
        "curious",
        "",
        (
            "{friend} and I were talking about this (yesterday|at lunch|last night).",
            "I promised {friend} to sort this out (today|before the weekend).",
            "(Let me explain what I'm after|Here is what I'm after).",
            "I (woke up|came in) with a long list of things to do.",
            "{friend} (told|assured) me that you are good at this.",
        ),
        (
            "Interesting, let's keep going.",
            "I see.",
            "That answers one question, here is another request.",
            "{friend} will be glad to hear that.",
            "(Good|Nice) to know.",
            "(So far, so good|That looks right).",
            "(Wonderful|Excellent), you are a great help.",
            "(Moving on|Next), then.",
        ),
        (
            "And then I'll leave you (alone|in peace).",
            "To finish, I have one more request.",
            "That leaves (just|only) this.",
            "(Before I forget|Before we stop), there is one more thing.",
        ),
    ),
    story(
        "routine",
        "",
        (
            "It's (Monday|Friday), time for the usual round.",
            "(Good morning|Hello|Hi there), I have a few things for you.",
            "(Let's|Shall we) get some work done.",
            "There are some matters that I have put off for (weeks|too long).",
        ),
        (
            "(Thank you|Thanks), (next|and on).",
            "(That's one|Another one) off the list.",
            "(Right|Alright), what else is there.",
            "The next one is (easy|short).",
            "(Fine|Good), let's carry on.",
        ),
        (
            "That (makes|would make) the round complete.",
            "(Then|After that) we are through for today.",
            "The last item is this.",
            "(Nearly done|Almost there).",
        ),
    ),
)
