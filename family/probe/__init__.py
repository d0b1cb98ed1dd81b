"""Of the variants of a pick the one stays that the policy solves nearest to half of the time
(docs/probe.md)."""
