"""What supervised learning before GRPO adds to the core."""

from rods.extension import Extension


class Supervised(Extension):
    name = "supervised"
    training_verbs = {"sft": ("sft:warm_up", "Supervised warm-up of a base model on ground truth.")}


EXTENSION = Supervised()
