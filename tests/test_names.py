"""No file of the product is called by a word that another room uses for another thing."""

import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = (
    "prompts",
    "rods",
    "worlds",
    "buffers",
    "daemon",
    "trainer",
    "evaluation",
    "console",
    "family",
)
# What a name means in every folder that has a file of it.
ROLES = {
    "__init__": "what a package brings",
    "__main__": "a program, as Python starts it",
    "main": "a program's command line",
    "extension": "the contract of features, and what each of them declares",
    "verbs": "the verbs of a feature, or of a world's folder",
    "settings": "what a feature adds to the configuration",
    "benchmark": "a benchmark's class, and how its items are played and scored",
    "conversation": "who speaks when in a benchmark whose user is a model, and how it ends",
    "official": "the code of a benchmark's own package, in a worker's process",
    "package": "the pinned wheel of a benchmark, and the worker that runs its code",
    "base": "the contract of what stands beside it",
    "records": "the dataclasses that the steps of a package hand on, with their failures",
    "world": "an environment and its worlds",
    "sessions": "connections to the servers of a world's environments",
    "description": "the file by which an environment from outside is named",
    "catalogue": "what composing knows of an environment: the class, and desk's",
    "tasks": "the record of a task, and BFCL's tasks as such records",
    "observations": "the records of rollouts, and the fold of the log that has them",
    "players": "who plays a task's world, user and judge: the contract, and 001's players",
    "scenarios": "scenarios of generated worlds (003): controlled, drawn, and written by models",
    "asking": "how a model is asked: in general, by the author of variants, and by the writer of "
    "worlds",
    "planning": "stage I of synthesis (004): by rule, and by a model",
    "wording": "stages II and III of synthesis (004): by rule, and by a model",
    "stand_in": "the roles of models that a feature asks, played by rule",
    "roles": "the roles of models: what 001's are asked, and what plays a role by rule",
    "model": "a language model: nano's, and what stands in for one",
    "questions": "what models are asked: by the author of variants, and by BFCL of a policy",
    "places": "the workers that a daemon gives attempts to, by what they run on",
    "plan": "the plan of a run: its figures, and the verb that prints them",
    "verify": "the check of a run against its logs, and its verb",
}


def test_a_name_that_several_folders_use_means_the_same_in_each() -> None:
    listed = subprocess.check_output(
        ["git", "ls-files", "--", *ROOMS], cwd=ROOT, text=True
    ).splitlines()
    folders: dict[str, list[str]] = defaultdict(list)
    for file in map(Path, listed):
        if file.suffix == ".py":
            folders[file.stem].append(str(file.parent))
    unknown = {
        name: where for name, where in folders.items() if len(where) > 1 and name not in ROLES
    }
    assert not unknown, (
        "a word for two things: rename one, or say in ROLES what it means in all of them"
    )
