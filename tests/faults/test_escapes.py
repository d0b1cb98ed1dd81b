"""Generated code runs confined, always: the attacks from inside generated worlds at a size that a
quick run can afford (`python -m tests.faults --only escapes` makes all), and the lowest tier, which
has to be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.calls import Call
from rods.config import Sandbox, parse_config
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.errors import InfrastructureError, UserError
from rods.family.environments.checking.worlds import program_faults
from rods.worlds.sandbox import confined
from rods.worlds.sandbox.confined import Offer, Tier
from rods.worlds.sandbox.environment import Sandboxed
from tests.faults.attacks import ATTACKS
from tests.faults.escapes import WAYS, Way, escapes, hostile_world
from tests.worlds.sandbox.tiers import require_tier

SHARE = 16


@pytest.mark.few("bubblewrap-tool", "landlock-check")
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_attacks_from_inside_a_generated_world_do_not_get_out(tier: Tier, way: Way) -> None:
    require_tier(tier)
    row = escapes(tier, way, SHARE, first=4 * WAYS.index(way) + 8 * (tier == "landlock"))
    assert row.survived == row.tried >= 8, "\n".join([str(row), *row.failures])


def test_an_attack_without_a_process_counts_neither_as_stopped_nor_as_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_tier("landlock")

    def reset(self: Sandboxed, state: object) -> None:
        raise InfrastructureError("the worker process did not start: no memory")

    monkeypatch.setattr(Sandboxed, "reset", reset)
    row = escapes("landlock", "tool", len(ATTACKS))
    assert (row.tried, row.survived, row.lost) == (
        0,
        0,
        0,
    ) and "(1 not tried: no process for them)" in str(row)
    assert row.untried == [
        f"{ATTACKS[0].kind}: {ATTACKS[0].name}: the worker process did not start: no memory"
    ]


def test_its_syntax_alone_would_have_refused_the_hostile_world(tmp_path: Path) -> None:
    faults = program_faults(hostile_world(tmp_path)[1], "world.py")
    assert {"builtins", "class_state"} <= {fault.control for fault in faults}


def test_generated_code_runs_on_the_lowest_tier_only_where_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, what it may do is shown by an attack that gets out."""
    monkeypatch.setattr(
        confined,
        "offered",
        lambda: Offer("limits", {"bubblewrap": "not installed", "landlock": "old"}),
    )
    name = f"{tmp_path}/{hostile_world(tmp_path)[0]}"
    plain = parse_config({"policy": {"kind": "simulated"}}, where="test").operation.sandbox
    for settings in (None, plain, Sandbox(environments=(name,)), Sandbox(lowest_tier="bubblewrap")):
        with (
            Environments(settings) as environments,
            pytest.raises(UserError, match="only of tier 'limits'"),
        ):
            environments.load(name)
    with Environments(Sandbox(lowest_tier="limits", workers=1)) as environments:
        environment = environments.load(name)
        assert isinstance(environment, Sandboxed)
        attack = {"attack": "files: reads /etc/passwd", "given": {}}
        world = environment.reset(None)
        assert "ESCAPED" in world.call(Call("attack", attack)).text and holds(
            world, Call("escaped", attack)
        )
