"""The configurations for language models that write are valid, and the page beside them serves
their models."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.config import Endpoint, identity_diff, read_config, read_values

FOLDER = Path(__file__).parent.parent.parent / "experiments" / "backbones"
PAGE = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=lambda file: file.stem)
def test_a_configuration_is_valid_and_its_models_are_served(file: Path) -> None:
    config = read_config(file)
    assert config.pipeline.author == "llm" and config.operation.endpoints
    assert f"{file.name}`" in PAGE
    for endpoint in config.operation.endpoints:
        assert isinstance(endpoint, Endpoint)
        (command,) = [
            part for part in PAGE.split("vllm serve ")[1:] if part.startswith(endpoint.model + " ")
        ]
        assert f"--served-model-name {endpoint.model} " in command
        assert endpoint.extra["chat_template_kwargs"] == {"enable_thinking": False}


def test_two_backbones_differ_from_one_in_the_operation_half_only() -> None:
    one, two = (read_values(FOLDER / f"{name}.toml") for name in ("qwen3-32b", "two-backbones"))
    models = [endpoint["model"] for endpoint in two["operation"]["endpoints"]]
    assert len(set(models)) == 2
    one.pop("operation"), two.pop("operation")
    assert one == two


def test_the_backbone_of_appendix_m_is_exchanged_and_nothing_else() -> None:
    qwen, glm = (read_config(FOLDER / f"{name}.toml") for name in ("qwen3-32b", "glm-4.5-air"))
    assert identity_diff(qwen.identity(), glm.identity()) == [] and glm.pool.max_generated == 400
    assert [one.model for one in glm.operation.endpoints] == ["zai-org/GLM-4.5-Air-FP8"]
    one, other = (config.operation.model_dump(exclude={"endpoints"}) for config in (qwen, glm))
    assert one == other
