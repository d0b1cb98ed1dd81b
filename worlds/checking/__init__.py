"""Checks of what a user brings: a task file (`rods data check`) and an environment (`rods env
check`).

Both look for every fault, not just the first, and return a `CheckReport` whose faults name place,
field and remedy: as records, as JSON and as lines for a terminal.
"""

from dataclasses import asdict, field

from rods.canonical import JsonMapping, JsonObject, frozen


@frozen
class Fault:
    """One thing to mend: `where` (file and line, or tool), the `field` at fault, `what` is wrong,
    the `remedy`, and the name of the `control` that found it, where controls have names."""

    where: str
    field: str
    what: str
    remedy: str = ""
    control: str = ""

    def as_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value or name != "control"}

    def __str__(self) -> str:
        place = f"{self.where} {self.field}" if self.field else self.where
        return f"{place}: {self.what}" + (f" → {self.remedy}" if self.remedy else "")


@frozen
class CheckReport:
    """The outcome of checking `subject`. `notes` are worth knowing but no faults; `facts` are
    counts and timings."""

    subject: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    facts: JsonMapping = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.faults

    def as_json(self) -> JsonObject:
        return {"ok": self.ok, **asdict(self), "faults": [fault.as_json() for fault in self.faults]}

    def lines(self) -> list[str]:
        """Faults first, then notes, then one line that sums up."""
        facts = ", ".join(
            f"{name} {value}"
            for name, value in self.facts.items()
            if not isinstance(value, (dict, list))
        )
        verdict = (
            "no fault"
            if self.ok
            else "1 fault"
            if len(self.faults) == 1
            else f"{len(self.faults)} faults"
        )
        summary = f"{self.subject}: {verdict}" + (f" ({facts})" if facts else "")
        return [*map(str, self.faults), *(f"note: {note}" for note in self.notes), summary]
