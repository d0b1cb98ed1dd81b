from pathlib import Path

import pytest

from tests.console.conftest import CONFIG, finished


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that `rods up` brought to its end, whose policy learns so fast that it outgrows tasks.
    Read it, do not write into it."""
    kind = 'kind = "simulated"\n'
    text = CONFIG.replace(kind, f"{kind}growth = 0.05\n")
    return finished(tmp_path_factory.mktemp("export"), text)
