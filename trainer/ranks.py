"""Several processes that train one run. Only the first opens logs, merges and writes checkpoints:
`together` runs a piece of its work while the others wait, and gives its result or its error to all.
Where that work needs all processes (a checkpoint restores every copy of the weights) it calls a
service of theirs with `ask`. With one process all of this is plain function calls."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from rods.deadlines import TOGETHER
from rods.errors import RodsError

T = TypeVar("T")


class Ranks:
    """This process among those that train together. `services` are what the first may `ask` of
    all."""

    def __init__(self) -> None:
        state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=TOGETHER))
        self.first: bool = state.is_main_process
        self.first_of_node: bool = state.is_local_main_process
        self.index: int = state.process_index  # this process's rank, from 0
        self.count: int = state.num_processes
        self.services: Mapping[str, Callable[..., Any]] = {}

    def part(self, total: int) -> slice:
        """Which of `total` rollouts are this process's: the ranks take equal parts, in order."""
        share = total // self.count
        return slice(self.index * share, (self.index + 1) * share)

    def together(self, work: Callable[[], T]) -> T:
        """What `work` returns in the first process, or the RodsError that it raises, in every
        process."""
        if not self.first:
            return self._follow()  # type: ignore[no-any-return]
        try:
            result = work()
        except BaseException as error:
            unknown = RuntimeError("the first process failed; its own output says why")
            broadcast_object_list([("error", error if isinstance(error, RodsError) else unknown)])
            raise
        broadcast_object_list([("result", result)])
        return result

    def _follow(self) -> Any:
        while True:
            kind, value = broadcast_object_list([None])[0]
            if kind == "service":
                name, arguments = value
                self.services[name](*arguments)
            elif kind == "error":
                raise value
            else:
                return value

    def ask(self, service: str, *arguments: Any) -> Any:
        """Within `together`, in the first process: every process calls the service; the first one's
        answer."""
        broadcast_object_list([("service", (service, arguments))])
        return self.services[service](*arguments)

    def gathered(self, part: Sequence[T]) -> list[T]:
        """The parts of all processes, in the order of their ranks."""
        return list(gather_object(list(part)))

    def agree(self, value: str) -> None:
        """Raises RuntimeError unless all processes say the same."""
        if len(values := set(self.gathered([value]))) > 1:
            raise RuntimeError(
                f"the processes disagree about the order of tasks ({', '.join(sorted(values))})"
            )
