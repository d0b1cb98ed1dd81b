"""Supervised learning on demonstrations, or from a teacher (003 §5.1, Appendix B.2), before GRPO:
`rods-train sft`."""
