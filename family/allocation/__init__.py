"""How the rollouts of a step are divided among its tasks: more where rewards have differed
(docs/allocation.md)."""
