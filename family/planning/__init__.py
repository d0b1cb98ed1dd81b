"""What a run would do, need and cost, before it does anything (docs/plan.md)."""
