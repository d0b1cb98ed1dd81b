"""Environments and scenarios that are generated (003): drawn by chance or written by language
models, held to controls, and varied by the daemon. See docs/generated.md."""
