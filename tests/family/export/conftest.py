from tests.console.conftest import finished_run as finished_run
