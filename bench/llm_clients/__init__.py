"""Clients under the same load, each a script of its own: `python bench/llm_clients/NAME.py URL
IN_FLIGHT ROUNDS`."""
