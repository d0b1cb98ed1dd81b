"""Words a draft: what the user says in each turn, from the catalogue's phrase book.

Two ways, so that the pipeline's `rewrite` switch changes something real (004 §3.3 and Appendix R):
`word` writes turn by turn (Stage II), each as if it stood alone; `rewrite` renders the whole
conversation at once (Stage III), its turns linked, by the plan's story if there is to be one, and
with back references ("it", "the same account") to what an earlier turn mentioned. A turn in which
no call is right has the text "" here: `task_types.apply` moves the request of the following turn
into it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from rods.canonical import Texts, frozen
from rods.composing.catalogue import Catalogue, PhraseBook, Recipe, Slot, Story
from rods.composing.lexicon import runs_on
from rods.composing.records import BoundCall, ComposeError, Draft

BACK = 0.75  # probability that a holistic rewrite refers back where it clearly can
LED = 0.6  # probability that a request has a lead of its own recipe, where it has some
SLACK = 2  # words that a turn may have beyond the longest: a blur adds some
SHORTER = 6  # wordings of a turn, until one is short enough
# what comes before all else, and after it
FOREMOST = re.compile(r"\b(?:first|start|begin)\b", re.IGNORECASE)
HINDMOST = re.compile(r"\b(?:finally|last|end|finish)\b", re.IGNORECASE)


@frozen
class RecipeRequest:
    """One recipe of a turn, the index of its first call, and what may be said about it."""

    recipe: Recipe
    start: int
    slots: Mapping[str, Slot]


def requests(catalogue: Catalogue, turn: Sequence[BoundCall]) -> list[RecipeRequest]:
    """The recipes of a turn in order. Raises ComposeError("conversation_construct_failed") for
    calls of no recipe."""
    asked = list[RecipeRequest]()
    start = 0
    while start < len(turn):
        recipe = catalogue.recipes[turn[start].recipe]
        end = start + len(recipe.steps)
        if tuple(bound.call.name for bound in turn[start:end]) != recipe.tools:
            raise ComposeError(
                "conversation_construct_failed", f"the calls of {recipe.name} are incomplete"
            )
        asked.append(RecipeRequest(recipe, start, turn[start].slots))
        start = end
    return asked


def word(catalogue: Catalogue, draft: Draft, rng: Random) -> Texts:
    """One text a turn, without story and back references. Raises ComposeError("query_gen_failed")
    as `rewrite` does."""
    turns = (requests(catalogue, turn) for turn in draft.turns)
    return tuple(_turn(catalogue, asked, "", holistic=False, fit=True, rng=rng) for asked in turns)


def rewrite(
    catalogue: Catalogue,
    draft: Draft,
    *,
    narrative: bool,
    served: bool = False,
    told: int | None = None,
    rng: Random,
) -> Texts:
    """All turns in one go: linked by the story (or by plain links without one), with back
    references. With `served` nothing is told that the calls do not serve, and nothing refers back
    to one of several things that the user named. Its opening tells of what the first `told` turns
    ask for, of 0 the first request alone: whatever it told besides might be served in a turn that
    comes then, in which no call is right. Raises ComposeError("query_gen_failed") when a phrase
    lacks a field."""
    book = catalogue.book
    story = _story(book, draft) if narrative else None
    story, resumed, intent = (
        _served(catalogue, draft, story, rng, told)
        if served and story is not None
        else (story, -1, "")
    )
    spoken = [index for index, turn in enumerate(draft.turns) if turn]
    later = rng.sample(story.later, len(story.later)) if story is not None else []
    texts = []
    for index, turn in enumerate(draft.turns):
        if story is None or index not in spoken:
            lead = rng.choice(book.links) if index in spoken[1:] and rng.random() < 0.5 else ""
        elif index == resumed:
            lead = rng.choice(book.resumes).replace("{intent}", intent)
        elif index in (spoken[0], spoken[-1]):
            lead = rng.choice(story.opening if index == spoken[0] else story.closing)
        else:
            lead = later[index % len(later)]  # none twice in a row
        lead = lead.format_map(draft.plan.narrative)
        asked = requests(catalogue, turn)
        own = asked[0].recipe.leads if served and asked else ()
        if own := own if own and rng.random() < LED else ():
            lead = rng.choice(own)
        texts.append(_turn(catalogue, asked, lead, holistic=True, fit=served, rng=rng))
        if index in spoken[:1] and (own or not texts[-1][1:].startswith(lead[1:])):
            resumed = -1  # nothing was told to which a turn could come back
    return tuple(texts)


def _served(
    catalogue: Catalogue, draft: Draft, story: Story, rng: Random, told: int | None
) -> tuple[Story, int, str]:
    """The story, opened by what the user wants to get done where the recipes say it, and without
    the lines about a topic, of which nobody knows that the calls serve it; the turn to which the
    opening comes back (-1: none), and what is wanted there."""
    # purpose → turn
    book = catalogue.book
    wanted = dict[str, int]()
    first_request = (draft.turns[0][:1],)
    for index, turn in enumerate(first_request if told == 0 else draft.turns[:told]):
        for recipe in dict.fromkeys(catalogue.recipes[bound.recipe] for bound in turn):
            if recipe.purpose:
                wanted.setdefault(rng.choice(recipe.purpose), index)
    first, *others = [*wanted] or [""]
    last = rng.choice(others) if others else first
    intent = f"{first} and {last}" if others else first
    openings = tuple(line.replace("{intent}", intent) for line in book.openings if intent)
    resumed = wanted[last] if openings and book.resumes and wanted[last] > wanted[first] else -1
    opening, later, closing = (
        tuple(line for line in lines if "{topic}" not in line) or ("",)
        for lines in (openings or story.opening, story.later, story.closing)
    )
    return replace(story, opening=opening, later=later, closing=closing), resumed, last


def parted(
    catalogue: Catalogue, draft: Draft, turn: int, text: str, rng: Random
) -> tuple[str, str]:
    """The `text` of a turn as two: what its first recipe asks for, with the lead of `text`, and the
    rest ("" where there is none). Both are worded anew, without back references, where there is a
    rest."""
    asked = requests(catalogue, draft.turns[turn])
    if len(asked) == 1:
        return text, ""
    story = _story(catalogue.book, draft)
    book = catalogue.book
    narrative = {**draft.plan.narrative, "intent": "@"}
    story_lines = (
        ()
        if story is None
        else (*book.openings, *book.resumes, *story.opening, *story.later, *story.closing)
    )
    leads = (
        re.escape(line.format_map(narrative)).replace("@", "[^.!?]+")
        for line in (*book.links, *asked[0].recipe.leads, *story_lines)
    )
    lead = max(
        (match[0] for pattern in leads if (match := re.match(pattern, text, re.I))),
        key=len,
        default="",
    )
    first = _turn(catalogue, asked[:1], lead, holistic=False, fit=True, rng=rng)
    return first, _turn(catalogue, asked[1:], "", holistic=False, fit=True, follows=True, rng=rng)


def _story(book: PhraseBook, draft: Draft) -> Story | None:
    return next(
        (story for story in book.stories if story.name == draft.plan.narrative.get("story")), None
    )


def _turn(
    catalogue: Catalogue,
    asked: Sequence[RecipeRequest],
    lead: str,
    *,
    holistic: bool,
    fit: bool,
    follows: bool = False,
    rng: Random,
) -> str:
    """The text of a turn, or of a part that `follows` another; with `fit` in words that leave room
    for `lead` where there are such."""
    if not asked:
        return ""
    longest = catalogue.book.longest
    tries = list[str]()
    room = longest - len(lead.split()) if fit else longest
    while not tries or (len(tries) < SHORTER and len(tries[-1].split()) > room):
        tries.append(
            _request(catalogue, asked, holistic=holistic, strict=fit, follows=follows, rng=rng)
        )
    text = min(tries, key=lambda text: len(text.split())) if fit else tries[-1]
    if lead and len(lead.split()) + len(text.split()) <= longest:
        # as the rest of a sentence
        running_on = text if re.match(r"I\b", text) else text[0].lower() + text[1:]
        text = (
            f"{_sentence(lead)} {text}" if lead[-1] in ".!?" else _sentence(f"{lead} {running_on}")
        )
    return text


def _request(
    catalogue: Catalogue,
    asked: Sequence[RecipeRequest],
    *,
    holistic: bool,
    strict: bool,
    follows: bool = False,
    rng: Random,
) -> str:
    """What is asked for. Where other requests come before, none is said to be the first; where
    others come after, none the last."""
    frames = catalogue.book.frames
    clauses = [
        _clause(catalogue, request, holistic=holistic, strict=strict, rng=rng) for request in asked
    ]
    sentences = list[str]()
    for start in range(0, len(clauses), max(frames)):
        some = clauses[start : start + max(frames)]
        lines = frames[len(some)]
        fitting = [
            line
            for line in lines
            if not ((start or follows) and FOREMOST.search(line))
            and not (clauses[start + max(frames) :] and HINDMOST.search(line))
        ]
        sentences.append(_sentence(rng.choice(fitting or lines).format(*some)))
    return " ".join(sentences)


def _clause(
    catalogue: Catalogue, request: RecipeRequest, *, holistic: bool, strict: bool, rng: Random
) -> str:
    """A request; where it is `strict`, nothing refers back to one of several of its kind, and "the
    same" stands in a turn's first request alone (in another it might mean what goes before), and
    for no text of several words, since others were read."""
    fields = dict[str, str]()
    book = catalogue.book
    for name, slot in request.slots.items():
        family = catalogue.family(slot.domain)
        back = (
            holistic
            and slot.repeats
            and not (strict and slot.others)
            and (slot.thing or family in book.again)
            and not (strict and not slot.thing and (request.start or runs_on(slot.text)))
            and rng.random() < BACK
        )
        if slot.thing:
            words = book.things[slot.domain]
            fields[name] = rng.choice(words.back if back else words.explicit).format(noun=slot.text)
        else:
            fields[name] = rng.choice(book.again[family]) if back else quoted(slot, strict)
    try:
        return rng.choice(request.recipe.phrases).format_map(fields).replace("''", "'")
    except KeyError as error:
        raise ComposeError(
            "query_gen_failed",
            f"a phrase of {request.recipe.name} has the unknown field {error}",
            function=request.recipe.name,
        ) from error


def quoted(slot: Slot, strict: bool) -> str:
    """What is said for a slot; where it is `strict`, in quotation marks when its words would run on
    into the sentence: "the text is not ready". A phrase may have them already."""
    if strict and slot.text == slot.value and runs_on(slot.text):
        return f"'{slot.text}'"
    return slot.text


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
