"""A configuration is checked whole; faults are named by file and key."""

from typing import Any

import pytest

from rods.config import Config, identity_diff, parse_config, preset, read_config
from rods.errors import UserError


def test_defaults_are_the_papers():
    config = Config()
    assert (config.zones.boundary_low, config.zones.boundary_high) == (0.20, 0.85)
    assert (config.pool.mastered_above, config.pool.too_hard_below) == (0.95, 0.20)
    assert (config.selection.seeds_per_step, config.rollouts.rollouts_per_task) == (16, 16)
    assert config.selection.quota_per_group() == 6  # ceil(16 / 3 groups of types)


def test_a_file_is_read_and_operation_is_not_identity(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'sync = "lockstep"\n[operation]\nworkers = 3\n[[curriculum.stages]]\ntypes = ["base"]\n'
    )
    config = read_config(path)
    assert config.operation.workers == 3 and config.curriculum.stages[0].types == ("base",)
    assert (
        config.identity()
        == parse_config(
            {"sync": "lockstep", "curriculum": {"stages": [{"types": ["base"]}]}}, where="x"
        ).identity()
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[selection]\nseeds_per_stepp = 4",
            "selection.seeds_per_stepp: unknown key (did you mean seeds_per_step?)",
        ),
        ("[selectio]\nquota = 1", "selectio: unknown key (did you mean selection?)"),
        (
            "[[curriculum.stages]]\nrewards = 'binary'",
            "curriculum.stages.0.rewards: unknown key (did you mean reward?)",
        ),
        ("[data]\nxyz = 1", "data.xyz: unknown key →"),
        ("[selection]\nseeds_per_step = 'four'", "valid integer, not 'four'"),
        ("[selection]\nseeds_per_step = 4.0", "selection.seeds_per_step"),
        ("[rollouts]\nrollouts_per_task = 1", "at least 2"),
        ("[zones]\nboundary_low = 0.9", "below boundary_high"),
        ("[policy]\nkind = 'transformers'", 'policy: kind = "transformers" needs `model`'),
        ("sync = 'locked'", "sync"),
        ("[[curriculum.stages]]\n[[curriculum.stages]]", "never ends"),
        (
            "[training]\nsteps = 99999999999999999999",
            "training.steps: a whole number has at most 64 bits, not 9999",
        ),
        (
            "[curriculum]\nstages = [{epochs = -9223372036854775809}]",
            "curriculum.stages.0.epochs: a whole number",
        ),
        ("[training]\nsteps = " + "9" * 5000, "not TOML"),
        ("x = " + "[" * 5000 + "]" * 5000, "not TOML"),
        ("x = " + "[" * 300 + "]" * 300, "nested too deep"),
        ("x" + ".a" * 3000 + " = 1", "nested too deep"),
        ("[training\n", "not TOML"),
    ],
)
def test_faults_name_file_key_and_remedy(tmp_path, text, complaint):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        read_config(path)
    assert (
        str(path) in str(error.value) and complaint in str(error.value) and "→" in str(error.value)
    )


@pytest.mark.parametrize(
    ("text", "key", "wanted"),
    [
        ('triage = { policy = ["--url", "x"] }', "policy", "while_idle = true"),
        ("triage = { rung_seeds = true }", "rung_seeds", "while_idle = true"),
        ("triage = { rung_seeds = true, while_idle = true }", "rung_seeds", 'policy = ["--url"'),
        ('admit = { world = "desk" }', "world", 'folder = "…"'),
    ],
)
def test_a_key_that_changes_nothing_is_refused_with_what_to_write(tmp_path, text, key, wanted):
    path = tmp_path / "run.toml"
    path.write_text(f"[operation]\n{text}\n")
    with pytest.raises(UserError) as error:
        read_config(path)
    assert f"{key} changes nothing without `{wanted}" in str(error.value)
    assert f"write that beside it, or leave {key} out" in str(error.value)


def test_groups_of_one_need_a_baseline_and_a_probe_beyond_the_group():
    values: dict[str, dict[str, Any]] = {
        "rollouts": {"rollouts_per_task": 1},
        "training": {"advantage_baseline": "batch"},
    }
    with pytest.raises(UserError, match="advantage_scale"):
        parse_config(values, where="x")
    values["training"]["advantage_scale"] = "none"
    with pytest.raises(UserError, match="would ever be picked"):
        parse_config(values, where="x")
    values["zones"] = {"probe": "window"}
    with pytest.raises(
        UserError,
        match=r"judge a variant before its window is full: set pool\.burn_in_observations and",
    ):
        parse_config(values, where="x")
    with pytest.raises(
        UserError,
        match=r"set pool\.drift_observations to zones\.window \(8\), or switch the layer off",
    ):
        parse_config({**values, "pool": {"burn_in": False, "drift_observations": 2}}, where="x")
    for pool in ({"burn_in_observations": 8, "drift_observations": 8}, {"retirement": False}):
        assert parse_config({**values, "pool": pool}, where="x").zones.probe == "window"
    del values["zones"]
    assert (
        parse_config({**values, "selection": {"seeds_per_step": 0}}, where="x").zones.probe
        == "group"
    )


def test_several_faults_are_named_at_once():
    with pytest.raises(UserError) as error:
        parse_config({"nope": 1, "pool": {"max_generated": -1}}, where="x")
    assert "nope" in str(error.value) and "pool.max_generated" in str(error.value)


def test_identity_diff_names_the_keys_that_differ():
    old = Config().identity()
    new = parse_config(
        {"training": {"batch_tasks": 8}, "operation": {"workers": 1}}, where="x"
    ).identity()
    assert identity_diff(old, new) == ["training.batch_tasks: 32 → 8"]


def test_a_model_is_looked_for_beside_the_configuration_and_known_by_its_name(
    tmp_path, monkeypatch
):
    monkeypatch.chdir("/")
    found = {}
    for place, given in (
        ("here", "../models/qwen/"),
        ("there", "deep/qwen"),
        ("else", "/models/other"),
    ):
        path = tmp_path / place / "run.toml"
        path.parent.mkdir()
        path.write_text(f"[policy]\nkind = 'transformers'\nmodel = '{given}'\n")
        found[place] = read_config(path)
    assert found["here"].policy.model == str(tmp_path / "models" / "qwen")
    assert found["there"].policy.model == str(tmp_path / "there" / "deep" / "qwen")
    assert found["else"].policy.model == "/models/other"
    assert found["here"].identity() == found["there"].identity()
    assert identity_diff(found["here"].identity(), found["else"].identity()) == [
        "policy.model: 'qwen' → 'other'"
    ]


def test_what_a_role_is_not_given_is_its_own_default() -> None:
    roles = parse_config({"roles": {"judge": {"temperature": 0.0}}}, where="x").roles
    assert roles.judge == Config().roles.judge.model_copy(update={"temperature": 0.0})
    assert roles.judge.reason >= 2000 and roles.plan == Config().roles.plan


@pytest.mark.parametrize(
    ("role", "keys", "told"),
    [
        ("judge", {"reason": 9000}, "9000 characters does not fit into 2048 tokens"),
        ("plan", {"world": 500}, "roles.plan.world: unknown key"),
        ("judge", {"results": 5}, "roles.judge.results"),
        ("judge", {"thinking": "much"}, "roles.judge.thinking"),
        ("jugde", {"tokens": 500}, "did you mean judge"),
    ],
)
def test_a_role_s_bad_keys_are_named(role: str, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_config({"roles": {role: keys}}, where="x")


PAPER = "rods-paper"
ENDPOINT = {"model": "m", "urls": ["http://localhost:1/v1"]}


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= (
            flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
        )
    return found


def test_a_preset_sets_what_the_file_leaves_out_and_the_file_wins():
    own = {
        "policy": {"kind": "simulated"},
        "pool": {"retest_fraction": 0.1},
        "training": {"loss": "token"},
    }
    resolved = parse_config({"preset": PAPER, **own}, where="x")
    whole = flat(resolved.model_dump(mode="json"))
    wanted = flat(preset(PAPER))
    assert (
        wanted.pop("operation.endpoints.structured") is False and resolved.operation.endpoints == ()
    )
    wanted.pop("curriculum.stages")
    assert {key: whole[key] for key in wanted} == wanted | flat(own)
    assert [(one.types, one.reward, one.expand) for one in resolved.curriculum.stages][:2] == [
        (("base",), "format_codes", False),
        (("base",), "progress", False),
    ]
    assert len(resolved.curriculum.stages[2].types) == 4 and resolved.curriculum.stages[2].expand
    stages = {"stages": [{"types": ["miss_func"]}]}
    assert (
        len(
            parse_config(
                {"preset": PAPER, **own, "curriculum": stages}, where="x"
            ).curriculum.stages
        )
        == 1
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recipes", False),
        ("high_level", True),
        ("calls", "per_turn"),
        ("answer_tries", 2),
        ("fallback_prompt", False),
    ],
)
def test_what_changes_nothing_without_a_model_is_refused(key: str, value: Any) -> None:
    told = rf'pipeline: {key} changes nothing without `author = "llm"`'
    for preset_name in ("", PAPER):
        values = {"preset": preset_name, "policy": {"kind": "simulated"}}
        with pytest.raises(UserError, match=told):
            own = {"author": "procedural", key: value}
            parse_config({**values, "pipeline": own}, where="x")
        own = {"author": "llm", key: value}
        assert getattr(parse_config({**values, "pipeline": own}, where="x").pipeline, key) == value
        # what a preset says of a model is nothing that its user has said
        own = {"author": "procedural"}
        assert parse_config({**values, "pipeline": own}, where="x").pipeline.calls == "batched"


def test_a_preset_holds_for_every_endpoint_that_the_file_names():
    endpoints = [ENDPOINT, ENDPOINT | {"name": "second", "structured": True}]
    values = {
        "preset": PAPER,
        "policy": {"kind": "simulated"},
        "operation": {"endpoints": endpoints},
    }
    found = parse_config(values, where="x").operation.endpoints
    assert [one.structured for one in found] == [False, True]
    with pytest.raises(UserError, match=r"operation\.endpoints"):
        parse_config({**values, "operation": {"endpoints": 3}}, where="x")


def test_what_is_recorded_is_the_resolved_configuration_and_the_presets_name():
    resolved = parse_config({"preset": PAPER, "policy": {"kind": "simulated"}}, where="x")
    identity = {key: value for key, value in resolved.identity().items() if key != "protocol"}
    assert identity["preset"] == PAPER and identity["pool"]["retest_fraction"] == 0.0
    assert parse_config(identity, where="x").identity() == resolved.identity()
    # the name apart, no preset is needed any more
    plain = parse_config(identity | {"preset": ""}, where="x")
    assert identity_diff(resolved.identity(), plain.identity()) == ["preset: 'rods-paper' → ''"]


def test_an_unknown_preset_is_an_error():
    with pytest.raises(UserError, match=r"preset: .*not 'rods'"):
        parse_config({"preset": "rods"}, where="x")
    with pytest.raises(UserError, match="preset"):
        parse_config({"preset": {"a": 1}}, where="x")
