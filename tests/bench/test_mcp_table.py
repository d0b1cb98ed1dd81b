"""The table of servers that others wrote, in docs/mcp.md."""

from __future__ import annotations

from pathlib import Path

from bench.mcp_table import SERVERS, key, results, table

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"


def test_the_page_has_the_table_that_the_results_make() -> None:
    assert "\n".join(table()) in PAGE.read_text()


def test_every_result_is_one_of_a_server_as_it_is_described_now() -> None:
    assert len({server["name"] for server in SERVERS}) == 25
    assert results().keys() <= {key(server) for server in SERVERS}
