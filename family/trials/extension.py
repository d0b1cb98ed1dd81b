"""Trials add the verbs that try models, and answers in their place, before a run pays for them."""

from rods.extension import Extension


class Trials(Extension):
    name = "trials"
    stand_ins = "rods.family.trials.author"
    verbs = {
        "doctor": ("doctor:doctor", "Check the installation and the language models of a configuration."),
        "stub-endpoint": (
            "stub_endpoint:stub_endpoint",
            "Serve a stand-in for a language model, to try the LLM author.",
        ),
    }


EXTENSION = Trials()
