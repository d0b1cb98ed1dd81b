"""Worlds that are generated (003): skeletons drawn from topics, assembled into source, controlled,
and the scenarios in them."""
