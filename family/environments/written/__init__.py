"""Worlds and scenarios that language models write behind endpoints (003 §3 and §4), held to the
controls of worlds/checking. See docs/generated.md."""
