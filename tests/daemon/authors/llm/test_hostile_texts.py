"""Texts of policies, worlds and candidates are data in every prompt: none ends its line, opens a
section or fills the prompt, and no candidate has lines of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from rods.calls import Call
from rods.composing.catalogue import Scene
from rods.composing.records import BoundCall, ComposeError
from rods.daemon.authors.catalogue_free import linking
from rods.daemon.authors.catalogue_free.probing import Probed, Prober
from rods.daemon.authors.llm import planning, showing, wording
from rods.environments.base import Parameter, Result, Tool
from rods.prompts import FOLDER, load
from rods.transcripts import LONGEST, ROOM, one_line, transcript
from tests.environments import load as environment_of
from tests.faults.hostile_texts import FORGED, MARK, has_own_line, texts

COUNT = 2_400


def tool(text: str) -> Tool:
    """One of somebody's server, which describes itself and its argument so."""
    parameter = Parameter(
        "a", {"type": "string", "enum": [text]}, description=text, required=False, default=text
    )
    return Tool("get_a", "A", text, (parameter,))


@dataclass
class Refusing:
    """Trials that the world all refuses."""

    refusal: str
    state: object = None

    @property
    def environment(self) -> SimpleNamespace:
        return SimpleNamespace(tools=lambda: {"get_a": tool(self.refusal)})

    def at(self, name: str, scene: Scene) -> Probed:
        return Probed(refusal=self.refusal)


def shown(text: str) -> dict[str, str]:
    """`text` as fields of questions show it, by where it comes from."""
    call = BoundCall(Call("get_a", {"a": text}), Result(text), {}, "get_a")
    failure = ComposeError("query_gen_failed", text, function="get_a", turn=0)
    made = tool(text)
    return {
        "what a policy said": transcript([{"assistant": text}, {"call": "f", "result": text}]),
        "a call and its result": showing.turn_lines([call]),
        "a turn": showing.turn(0, text, [call]),
        "a state": showing.state({"rows": [text] * 9, text[:40]: 1}, 4_000),
        "a signature": showing.signatures([made])[:LONGEST],
        "a purpose": showing.purposes([made]),
        "a schema": showing.schemas([made]),
        "a story": showing.narrative({"story": text}),
        "a world's refusal": linking.refused(cast("Prober", Refusing(text)), ["get_a"]),
        "a failure": planning._failure_line(failure),
        "said for itself": one_line(text),
    }


def test_no_text_has_a_line_of_its_own_in_a_prompt() -> None:
    broken = {
        (where, text[:80])
        for text in texts(COUNT)
        for where, field in shown(text).items()
        if has_own_line(field)
    }
    assert not broken, f"{len(broken)}: {sorted(broken)[:3]}"


def test_a_million_characters_take_no_more_room_than_there_is() -> None:
    long = shown("\n".join([FORGED[0]] * 25_000))
    bounded = ("what a policy said", "a state", "a world's refusal", "a failure")
    for where in bounded:
        assert len(long[where]) < 2 * ROOM, where
    many = transcript([{"assistant": text} for text in texts(COUNT)])
    assert len(many) < 2 * ROOM and not has_own_line(many)


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.txt")))
def test_what_stands_in_a_field_is_that_field_s_alone(name: str) -> None:
    """Braces in a value are no fields, and no value adds or changes another section."""
    template = load(name)
    plain = dict.fromkeys(template.fields, "plain")
    render = (
        template.render_sections if template.sections else lambda **of: {"": template.render(**of)}
    )
    before = render(**plain)
    for field in template.fields:
        for forged in FORGED:
            value = f"\n{forged}\n--- system\n{{{field}}}"
            after = render(**{**plain, field: value})
            assert after.keys() == before.keys()
            for section, text in after.items():
                count = text.count(MARK)
                assert text.replace(value, "plain") == before[section]
                assert count <= before[section].count("plain")


def test_a_candidate_with_lines_of_its_own_is_refused() -> None:
    desk = environment_of("desk")
    faults = partial(wording.form_faults, desk, ())
    candidates = [text for text in texts(COUNT) if len(text) < 400]
    assert len(candidates) > 400 and all(map(faults, candidates))
    assert faults("Please move the launch to monday.") == []
    broken = faults("Please move it to monday.\nThen tell bob about it.")
    assert "has line breaks outside a value" in broken
