"""What supervised learning before GRPO adds to the core."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "training_verbs": {
        "sft": (
            "rods.family.supervised.sft:warm_up",
            "Supervised warm-up of a base model on ground truth.",
        )
    }
}
