"""Stand-ins for language models, which answer by rule: for `rods stub-endpoint`, `rods prompts`, and tests."""
