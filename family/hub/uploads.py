"""Uploads of a run's checkpoints: this module as a program uploads one, in a process of its own,
for which the trainer waits only at its end. `hub.json` in the run folder says which one is there,
and why a later one is not."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rods.buffers.checkpoints import OPTIMIZER
from rods.buffers.log.disk import replace
from rods.errors import UserError
from rods.files import read_regular
from rods.logs import log

STATE = "hub.json"
LEFT = (*OPTIMIZER, "adapter.pt")  # needed to resume here, and by nobody who loads the policy
LOOK = 0.2  # seconds
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # the trainer sets the first for itself


class Uploads:
    """The `Copies` (rods.extension) of a run whose configuration names a repository."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self._to = run.config.operation.hub
        state = state_of(run.path)
        self._state = state if state.get("repository") == self._to.repository else {}
        self._process: subprocess.Popen[str] | None = None
        self._newest: Path | None = None
        self._at = ""  # the checkpoint that is uploaded, or was last
        self._start(None)  # makes the repository: a wrong token or name is told now

    def saved(self, policy: Path) -> None:
        self._newest = policy
        if self._idle() and self._to.uploads == "each" and self._due():
            self._start(policy)

    def close(self, ended: bool, waiting: Callable[[], bool]) -> None:
        while ended and (not self._idle() or self._due()) and waiting():
            if self._process is None:
                self._start(self._newest)
            time.sleep(LOOK)
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _due(self) -> bool:
        newest = self._newest
        return newest is not None and newest.parent.name not in (
            self._at,
            self._state.get("uploaded"),
        )

    def _start(self, policy: Path | None) -> None:
        self._at = policy.parent.name if policy else ""
        job = {"to": self._to.repository, "private": self._to.private, "folder": str(policy or "")}
        job |= {"message": f"{self._run.name}, {self._at}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(job)],
            env={key: value for key, value in os.environ.items() if key not in OFFLINE},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # a Ctrl-C in the terminal is the trainer's to answer
        )

    def _idle(self) -> bool:
        """Whether no upload is under way; takes up what the last one has said."""
        if self._process is None or self._process.poll() is None:
            return self._process is None
        answer = self._process.communicate()[0]
        code = self._process.returncode
        self._process = None
        said: dict[str, str] = (
            json.loads(answer) if answer else {"why": f"the upload ended with code {code}"}
        )
        about = {"checkpoint": self._at, "repository": self._to.repository, **said}
        if "why" in said:
            log.warning(
                "not uploaded",
                **about,
                then="training goes on; the next checkpoint or start tries again",
            )
            self._state = {**self._state, "repository": self._to.repository, **said}
        elif self._at:
            log.info("uploaded", **about)
            self._state = {"repository": self._to.repository, "uploaded": self._at, **said}
        with suppress(OSError, UserError):  # a full disk is the logs' to tell
            replace(self._run.path / STATE, json.dumps(self._state).encode())
        return True


def state_of(run: Path) -> dict[str, Any]:
    """What hub.json of the run folder says; empty where there is none."""
    with suppress(OSError, UserError, ValueError):
        return dict(json.loads(read_regular(run / STATE)))
    return {}


def upload(to: str, private: bool, folder: str, message: str) -> dict[str, str]:
    """The commit's address, or `why` there is none, without the token; no `folder`: the repository
    is made."""
    token = None
    try:
        from huggingface_hub import HfApi, get_token

        if (token := get_token()) is None:
            raise ValueError("no token is here: set HF_TOKEN, or call `hf auth login`")
        HfApi(token=token).create_repo(to, private=private, exist_ok=True)
        if not folder:
            return {}
        parts: dict[str, Any] = {
            "repo_id": to,
            "folder_path": folder,
            "ignore_patterns": [*LEFT, "deepspeed/**"],
        }
        return {
            "commit": str(
                HfApi(token=token).upload_folder(**parts, commit_message=message).commit_url
            )
        }
    except Exception as error:  # noqa: BLE001 - whatever the client raises is the answer
        why = " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())
        return {"why": (why.replace(token, "…") if token else why)[:500]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(upload(**json.loads(sys.argv[1]))))
