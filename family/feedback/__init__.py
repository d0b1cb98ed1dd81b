"""Actionable feedback (000 §3.3, Appendix C): failed calls are answered with what may help, by
rule, or by texts that agents write for failures that repeat."""
