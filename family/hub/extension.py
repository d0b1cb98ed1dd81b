"""What uploads to a hub add to the core."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from rods.extension import Copies, Extension, Section


class Hub(Section):
    """Uploads of checkpoints to a hub, with the token that huggingface_hub finds (HF_TOKEN, or what
    `hf auth login` has kept), which nothing of ours writes down (docs/training.md)."""

    # such as "me/my-policy", made if need be; empty: none
    repository: str = Field("", pattern=r"^([\w.-]+/[\w.-]+)?$")
    private: bool = True  # a repository that is made here is seen by its owners alone
    # last: the newest checkpoint, when a start ends by itself; each: also those that find no upload
    # under way
    uploads: Literal["last", "each"] = "last"


class Uploading(Extension):
    name = "hub"
    operation = {"hub": Hub()}

    def validate(self, config: Any) -> None:
        if config.operation.hub.repository and config.policy.kind == "simulated":
            raise ValueError(
                "operation.hub.repository: a simulated policy has no weights to upload"
            )

    def copies(self, run: Any) -> Copies | None:
        from rods.family.hub.uploads import Uploads

        return Uploads(run) if run.config.operation.hub.repository else None

    def run_notes(self, run: Any) -> Sequence[str]:
        from rods.family.hub.uploads import state_of

        state = state_of(run.path)
        told = (
            [f"{state['uploaded']} is uploaded: {state.get('commit')}"]
            if "uploaded" in state
            else []
        )
        why = (
            f"not uploaded to {state.get('repository')}: {state.get('why')} (it stays in "
            f"checkpoints/)"
        )
        return [*told, why] if "why" in state else told


EXTENSION = Uploading()
