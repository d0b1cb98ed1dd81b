"""BFCL V4's format sensitivity as a benchmark (rods.family.benchmarks.benchmarks): 200 single
turns, each in 26 prompt formats, which differ in how calls are written, whether in a tag, how
functions are documented, and how the rest of the prompt is worded. What counts is how far the
formats' scores are apart."""

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property

from rods.environments.registry import declared
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.bfcl_single.benchmark import Item, SingleTurns
from rods.family.benchmarks.contract import Known
from rods.family.benchmarks.folder import Form
from rods.tasks import AnyTask
from rods.worlds.bfcl import wheel

UNREACHABLE = declared("rods.family.benchmarks", "benchmark.toml")["bfcl_formats"]["unreachable"]
_LISTING = "get_all_format_sensitivity_configs"


class Formats(SingleTurns):
    """The benchmark (rods.family.benchmarks.contract). An item is called
    format_sensitivity_<number>: <format>:<single turn>; its kind is the format."""

    name = "bfcl_formats"
    title = "BFCL format sensitivity"
    categories: Sequence[str] = ("format_sensitivity",)
    # BFCL asks no model for them that has native calls
    forms: Sequence[Form] = ("prompt",)

    @cached_property
    def kinds(self) -> Sequence[str]:  # type: ignore[override]
        listed: Sequence[str] = taken(wheel.path(), "utils.py", [_LISTING], {})[_LISTING]()
        return listed

    @cached_property
    def items(self) -> dict[str, Item]:
        single = SingleTurns().items
        drawn: dict[str, list[str]] = json.loads(
            wheel.read(wheel.path(), "data/BFCL_v4_format_sensitivity.json")
        )
        names = [name for listed in map(set, drawn.values()) for name in single if name in listed]
        pairs = enumerate((name, format) for name in names for format in self.kinds)
        return {
            f"format_sensitivity_{n}:{form}:{name}": single[name]._replace(format=form)
            for n, (name, form) in pairs
        }

    def due(self, task: AnyTask, policy: Known, form: Form) -> tuple[Mapping[str, float], str]:
        _, format, name = self.identifier(task).split(":")
        why = UNREACHABLE.get(format.split("&")[0].removeprefix("ret_fmt="), {}).get(name, "")
        return {"official": float(policy == "truth" and not why)}, why if policy == "truth" else ""

    def figures(self, verdicts: Mapping[str, float], whole: bool) -> Mapping[str, float]:
        """As BFCL has them, in percent."""
        values = list(verdicts.values())
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return {
            "largest less smallest": 100 * (max(values) - min(values)),
            "standard deviation": 100 * deviation,
        }
