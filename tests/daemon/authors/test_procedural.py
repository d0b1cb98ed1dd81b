"""The procedural author beyond single stages: classes without recipes, and variety."""

from __future__ import annotations

from dataclasses import replace

from rods.composing.catalogue import catalogue_for
from rods.daemon.authors.procedural import ProceduralAuthor
from tests.daemon.pipelines import THREADS, Bench, seed, tasks
from tests.environments import load


async def test_a_seed_of_a_class_without_recipes_ends_as_no_prompts() -> None:
    catalogue = catalogue_for(load("desk"))
    tools = load("desk").tools()
    group = next(iter({tools[call.name].group for turn in seed().calls for call in turn}))
    kept = {
        name: recipe
        for name, recipe in catalogue.recipes.items()
        if all(tools[tool].group != group for tool in recipe.tools)
    }
    who = ProceduralAuthor(load("desk"), replace(catalogue, recipes=kept), THREADS)
    bench = Bench()
    assert await bench.write(seed(), who) == "no_prompts"
    assert (
        bench.failures() == [("plan", "no_prompts")]
        and group in bench.rejections[0].evidence["detail"]
    )


async def test_most_seeds_become_variants_with_other_calls_other_words_and_another_world() -> None:
    roots = [task for task in tasks() if task.split == "train"]
    returns = {
        text
        for task in tasks()
        for turn, text in enumerate(task.script)
        if turn in task.later_tools
    }
    bench = Bench()
    written = [(root, await bench.variant(root, pick=f"1-{root.id}")) for root in roots]
    assert len({variant.id for _, variant in written}) == len(roots)
    for root, variant in written:
        assert variant.state != root.state and not set(variant.script) & set(root.script) - returns
        assert sorted(call.name for turn in variant.calls for call in turn) != sorted(
            call.name for turn in root.calls for call in turn
        )
        assert [bool(turn) for turn in variant.calls] == [bool(turn) for turn in root.calls]
