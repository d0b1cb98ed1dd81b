"""What supervised learning before GRPO adds to the core."""

PROVIDES = {
    "training_verbs": {
        "sft": (
            "rods.family.supervised.sft:warm_up",
            "Supervised warm-up of a base model on ground truth.",
        )
    }
}
