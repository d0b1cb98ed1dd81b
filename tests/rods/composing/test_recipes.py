"""Recipes as TOML: what each shorthand stands for, and what is refused with file, key and
remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rods.composing.catalogue import (
    Constant,
    FromEarlierRecipe,
    FromResult,
    FromUser,
    ProducedEntity,
    Recipe,
    RecipeStep,
    Worded,
    Words,
)
from rods.composing.recipes import MOST_PHRASES, RecipeTables, alternatives, merged, read, source
from rods.errors import UserError
from rods.worlds.checking.soundness import faults
from tests.environments import load
from tests.rods.composing.drafts import desk


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "own.toml"


def tables(file: Path, text: str) -> RecipeTables:
    file.write_text(text, encoding="utf-8")
    return read(file)


def recipes(file: Path, text: str) -> dict[str, Recipe]:
    return dict(tables(file, text).recipes)


def test_a_recipe_reads_as_it_is_written(file: Path) -> None:
    (made,) = recipes(
        file,
        """
        [recipes.invite]
        steps = [
            "find_event title=title:title",
            'invite_guest event=0.event who=^person loud=!true how=!"a b" n=!1.0',
        ]
        phrases = ["invite {person} to the {title}"]
        gives = { event = "0.event/title", guest = "^person", card = "1.cards.0/the new card" }
        ends = ["free"]
        when = ["logged_in"]
        unless = ["full"]
        makes = ["invited"]
        short = true
        """,
    ).values()
    assert made.name == "invite" and made.phrases == ("invite {person} to the {title}",)
    assert made.steps == (
        RecipeStep("find_event", {"title": FromUser("title", "title")}),
        RecipeStep(
            "invite_guest",
            {
                "event": FromResult(0, ("event",)),
                "who": FromEarlierRecipe("person"),
                "loud": Constant(True),
                "how": Constant("a b"),
                "n": Constant(1.0),
            },
        ),
    )
    assert (
        isinstance(made.steps[1].arguments["n"], Constant)
        and type(made.steps[1].arguments["n"].value) is float
    )
    assert made.gives == {
        "event": ProducedEntity(FromResult(0, ("event",)), "title"),
        "guest": ProducedEntity(FromEarlierRecipe("person"), ""),
        "card": ProducedEntity(FromResult(1, ("cards", 0)), "the new card"),
    }
    assert (made.ends, made.when, made.unless, made.makes, made.short) == (
        ("free",),
        ("logged_in",),
        ("full",),
        ("invited",),
        True,
    )


def test_short_notation_of_sources() -> None:
    assert source("name:contact") == FromUser("name", "contact")
    assert source("0.mails.0") == FromResult(0, ("mails", 0))
    assert source("^event") == FromEarlierRecipe("event")
    for text in ("name", "0", "x.y"):
        with pytest.raises(ValueError, match="neither"):
            source(text)


def test_alternatives_are_multiplied_out() -> None:
    assert alternatives("(show|print) {file} (now|)") == [
        "show {file} now",
        "show {file}",
        "print {file} now",
        "print {file}",
    ]
    many = "(a|b|c) (d|e|f) (g|h)"
    assert len(alternatives(many)) == MOST_PHRASES and alternatives(many) == alternatives(many)
    assert alternatives("as (it) is") == ["as (it) is"]


def test_shared_entries_stand_in_lists_and_inside_steps(file: Path) -> None:
    found = recipes(
        file,
        """
        [shared]
        day = "day=day:day hour=hour:hour"
        plan = "create_event title=title:title @day"
        both = ["@plan", "book_room event=0.event"]
        gone = ["event", "person"]

        [recipes.short]
        steps = ["@plan"]
        phrases = ["plan {title} for {day} at {hour}"]
        ends = ["mail", "@gone"]

        [recipes.long]
        steps = ["@both", "move_event event=0.event @day"]
        phrases = ["plan {title} for {day} at {hour}"]
        """,
    )
    planned = RecipeStep(
        "create_event",
        {
            "title": FromUser("title", "title"),
            "day": FromUser("day", "day"),
            "hour": FromUser("hour", "hour"),
        },
    )
    assert found["short"].steps == (planned,) and found["short"].ends == ("mail", "event", "person")
    assert found["long"].tools == ("create_event", "book_room", "move_event")
    assert found["long"].steps[0] == planned and found["long"].user_slots == {
        "title": "title",
        "day": "day",
        "hour": "hour",
    }


def test_a_family_is_written_for_each_member_in_order(file: Path) -> None:
    found = recipes(
        file,
        """
        [recipes.orders]
        each = [
            { verb = "buy", type = "Buy", adds = { unless = ["poor"] } },
            { verb = "sell", type = "Sell" },
        ]

        [recipes.orders.recipes."<verb>_it"]
        steps = ['order type=!"<type>" stock=^stock']
        phrases = ["<verb> {stock}"]
        unless = ["closed"]

        [recipes.orders.recipes."<verb>_more"]
        steps = ['order type=!"<type>" stock=^stock']
        phrases = ["<verb> more of {stock}"]

        [recipes.last]
        steps = ["wait"]
        phrases = ["wait"]
        """,
    )
    assert list(found) == ["buy_it", "buy_more", "sell_it", "sell_more", "last"]
    assert [each.unless for each in found.values()] == [
        ("closed", "poor"),
        ("poor",),
        ("closed",),
        (),
        (),
    ]
    assert found["sell_it"].phrases == ("sell {stock}",)
    assert found["sell_it"].steps[0].arguments["type"] == Constant("Sell")


def test_a_list_as_a_members_value_multiplies_the_phrases(file: Path) -> None:
    found = recipes(
        file,
        """
        [[shared.token]]
        on = ""
        token = "token:token"
        said = [", token {token}", " (with|by) {token}"]
        adds = { gives = { token = "token:token/token" } }

        [[shared.token]]
        on = "_on"
        token = "^token"
        said = ""

        [recipes."list<on>"]
        each = ["@token"]
        steps = ["list token=<token>"]
        phrases = ["list all<said>", "show all<said>"]
        gives = { first = "0.0" }
        """,
    )
    assert found["list"].phrases == (
        "list all, token {token}",
        "list all with {token}",
        "list all by {token}",
        "show all, token {token}",
        "show all with {token}",
        "show all by {token}",
    )
    assert list(found["list"].gives) == ["first", "token"] and list(found["list_on"].gives) == [
        "first"
    ]
    assert found["list_on"].phrases == ("list all", "show all") and found["list_on"].needs == {
        "token"
    }


def test_the_other_tables(file: Path) -> None:
    found = tables(
        file,
        """
        links = ["(Next|Then),"]
        longest = 12
        siblings = [["copy", "move"]]
        lookups = ["look"]
        silent = ["token"]

        [frames]
        1 = ["(Please|Kindly) {0}."]

        [stories.trip]
        opening = ["Off to {topic}."]
        later = ["On with (it|this)."]
        closing = ["Done."]
        groups = ["cars"]

        [things]
        file = { explicit = ["the {noun}"], back = ["that file"] }

        [vague]
        day = ["some day"]

        [supply]
        day = ["I mean {value}."]

        [families]
        day = ["lone_day"]

        [swaps]
        copy = ["source", "target"]

        [domains]
        unit = [{ value = "km", text = "kilometers" }, "miles", ["a", "b"]]

        [pools]
        names = ["Ada", "Ben"]
        prices = { ABC = 3 }
        """,
    )
    book = found.book
    assert book.frames == {1: ("Please {0}.", "Kindly {0}.")} and book.links == ("Next,", "Then,")
    assert book.longest == 12 and book.things == {"file": Words(("the {noun}",), ("that file",))}
    (story,) = book.stories
    assert (
        story.name == "trip"
        and story.later == ("On with it.", "On with this.")
        and story.groups == {"cars"}
    )
    assert found.siblings == (("copy", "move"),) and found.swaps == {"copy": ("source", "target")}
    assert (
        found.families == {"day": ("lone_day",)}
        and found.lookups == {"look"}
        and found.silent == {"token"}
    )
    assert found.domains == {"unit": (Worded("km", "kilometers"), "miles", ["a", "b"])}
    assert found.pools == {"names": ("Ada", "Ben"), "prices": {"ABC": 3}}


_HEAD = '[recipes.look]\nsteps = ["look"]\nphrases = ["look"]\n'
_EACH = '[recipes."look<n>"]\neach = [{ n = "1" }]\nsteps = ["look"]\nphrases = ["look"]\n'


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        ("[recipe.look]", "recipe", "not permitted"),
        ("recipes = 3", "recipes", "must be a table"),
        ("[recipes]\nlook = 3", "recipes.look", "must be a table"),
        (_HEAD + "phrase = 3", "recipes.look.phrase", "not permitted"),
        ('[recipes.look]\nsteps = ["look"]', "recipes.look.phrases", "required"),
        ('[recipes.look]\nphrases = ["look"]', "recipes.look.steps", "required"),
        ('[recipes.a]\nsteps = []\nphrases = ["x"]', "recipes.a.steps", "at least 1"),
        ('[recipes.a]\nsteps = "look"\nphrases = ["x"]', "recipes.a.steps", "valid tuple"),
        ('[recipes.a]\nsteps = [3]\nphrases = ["x"]', "recipes.a.steps.0", "valid string"),
        ('[recipes.a]\nsteps = ["look"]\nphrases = [3]', "recipes.a.phrases.0", "valid string"),
        ('[recipes.a]\nsteps = ["look at"]\nphrases = ["x"]', "recipes.a.steps.0", "is no step"),
        ('[recipes.a]\nsteps = ["look n=x"]\nphrases = ["x"]', "recipes.a.steps.0", "neither"),
        ('[recipes.a]\nsteps = ["look n=!x"]\nphrases = ["x"]', "recipes.a.steps.0", "is no JSON"),
        (
            '[recipes.a]\nsteps = ["@lok"]\nphrases = ["x"]',
            "recipes.a.steps",
            "@lok is not shared: define it in [shared]",
        ),
        (
            '[recipes.a]\nsteps = ["look n=@ x"]\nphrases = ["x"]',
            "recipes.a.steps",
            "@ is not shared",
        ),
        (_HEAD + "gives = 3", "recipes.look.gives", "valid dictionary"),
        (_HEAD + "gives = { a = 3 }", "recipes.look.gives.a", "valid string"),
        (_HEAD + 'gives = { a = "b" }', "recipes.look.gives.a", "neither"),
        (
            _HEAD + 'gives = { a = "0.b/{c} to d" }',
            "recipes.look.gives.a",
            "'{c} to d' holds a slot",
        ),
        (_HEAD + 'short = "yes"', "recipes.look.short", "valid boolean"),
        (_HEAD + 'ends = "file"', "recipes.look.ends", "valid tuple"),
        (_HEAD + "each = []", "recipes.look.each", "a table for each member"),
        (_EACH.replace("look<n>", "look<m>"), "recipes.look<m>", "<m> stands for no text"),
        (
            _EACH.replace("look<n>", "look").replace("{ n", '{ n = "0" }, { n'),
            "recipes.look",
            "two recipes",
        ),
        ("[frames]\none = []", "frames.one.[key]", "valid integer"),
        ('[stories.trip]\nopening = ["Off."]', "stories.trip.later", "required"),
        (
            '[stories.trip]\nopening = ["Off."]\nlater = []\nclosing = ["On."]',
            "stories",
            "trip needs a line of each",
        ),
        ("[things]\nfile = 3", "things.file", "dictionary"),
        (
            "[things]\nfile = { explicit = [], back = [], forth = [] }",
            "things.file.forth",
            "nexpected",
        ),
        ('[families]\na = ["x"]\nb = ["x"]', "families", "x has another family"),
        ('siblings = [["one"]]', "siblings.0.1", "required"),
        ('siblings = "one"', "siblings", "valid tuple"),
        ("[domains]\nday = []", "domains.day", "at least 1"),
        ('longest = "40"', "longest", "valid integer"),
    ],
)
def test_whatever_is_not_of_the_format_is_named(file: Path, text: str, key: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        tables(file, text)
    assert caught.value.where == f"{file}, {key}"
    assert what in caught.value.what and "docs/composing.md" in caught.value.remedy


def test_a_family_inside_a_family_is_refused(file: Path) -> None:
    inner = _EACH.replace("[recipes.", "[recipes.all.recipes.")
    with pytest.raises(UserError, match="a family inside a family"):
        tables(file, f'[recipes.all]\neach = [{{ n = "2" }}]\n{inner}')


def test_what_is_no_toml_is_named_with_its_line(file: Path) -> None:
    with pytest.raises(UserError, match=r"own\.toml: not TOML: .*line 2.* → mend that line"):
        tables(file, "[recipes]\nlook = ]")
    with pytest.raises(UserError, match=r"not TOML: .*look.*"):
        tables(file, _HEAD + _HEAD)
    with pytest.raises(UserError, match=r"cannot read .* → check the path"):
        read(file.parent / "nowhere.toml")


def test_two_files_make_one_catalogue_unless_they_share_a_name(file: Path) -> None:
    one = tables(file, "longest = 9\n" + _HEAD + '[vague]\nday = ["some day"]')
    other = tables(
        file.with_name("other.toml"),
        'lookups = ["see"]\n[recipes.see]\nsteps = ["see"]\nphrases = ["see"]',
    )
    whole = merged([one, other])
    assert list(whole.recipes) == ["look", "see"] and whole.lookups == {"see"}
    assert whole.vague.keys() == {"day"} and whole.longest == 9
    with pytest.raises(
        UserError, match=r"own\.toml, recipes: another file defines look too → keep one of them"
    ):
        merged([other, one, one])
    with pytest.raises(UserError, match=r"own\.toml, longest: another file defines longest too"):
        merged([one.model_copy(update={"recipes": {}, "vague": {}}), one])


def test_a_domain_has_one_definition(file: Path) -> None:
    fixed = tables(file, '[domains]\nday = ["monday"]')
    with pytest.raises(
        UserError, match=r"own\.toml, domains: the code defines day too → keep one of the two"
    ):
        fixed.catalogue("own", domains={"day": lambda scene: ()})


@pytest.mark.parametrize(("value", "noun"), [("^old", "/old"), ("0.b", "/slot")])
def test_a_thing_without_a_noun_needs_words_without_one(file: Path, value: str, noun: str) -> None:
    text = (
        _HEAD
        + f'gives = {{ new = "{value}/" }}\n[things]\nnew = {{ explicit = ["the {{noun}}"], back = '
        f'["it"] }}'
    )
    where = r"own\.toml, recipes\.look\.gives\.new: gives a new without a noun"
    with pytest.raises(UserError, match=rf"{where}.* → end its source with {noun}, or"):
        tables(file, text).catalogue("own", domains={})
    for sound in (
        text.replace("the {noun}", "the new one"),
        text.replace(f"{value}/", f"{value}/some words"),
    ):
        made = {name: getattr(desk(), name) for name in ("make_state", "patch", "pad", "topics")}
        assert tables(file, sound).catalogue("own", domains={}, **made).recipes


def test_the_documented_file_makes_a_sound_catalogue_for_desk(file: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "composing.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found = tables(file, example)
    assert list(found.recipes)[-2:] == ["note_income", "note_expense"]
    assert len(found.recipes["plan_event"].phrases) == 4
    ours = desk()
    domains = {
        name: ours.domains[name]
        for name in ("title", "day", "hour", "contact", "new_name", "account")
    }
    made = {name: getattr(ours, name) for name in ("make_state", "patch", "pad", "topics")}
    assert faults(found.catalogue("desk", domains=domains, **made), load("desk")) == []
