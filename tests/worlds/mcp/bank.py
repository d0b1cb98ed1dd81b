"""An MCP server for tests that keeps an account in SQLite and a sheet in an archive, and refuses
calls by error codes of its own."""

from __future__ import annotations

import os
import sqlite3
import time
import zipfile
from contextlib import closing
from pathlib import Path

from mcp import MCPError
from mcp.server.mcpserver import MCPServer

server = MCPServer("bank", log_level="CRITICAL")


def pay_in(amount: int) -> str:
    """Pays into the account."""
    with closing(sqlite3.connect("account.db")) as book, book:
        book.execute("CREATE TABLE IF NOT EXISTS paid (amount INTEGER)")
        book.execute("INSERT INTO paid VALUES (?)", (amount,))
    return "paid"


def save_sheet(cell: int, year: int) -> str:
    """Saves a sheet with one cell, as a file of a year."""
    with zipfile.ZipFile("book.xlsx", "w") as sheet:
        sheet.writestr(zipfile.ZipInfo("xl/sheet1.xml", (year, 1, 1, 0, 0, 0)), f"<v>{cell}</v>")
    return "saved"


def size(path: str) -> str:
    """The bytes of a file."""
    return Path(path).read_bytes().hex()


def write(path: str, content: str) -> str:
    """Writes a file."""
    Path(path).write_text(content)
    return "written"


def edit(path: str, edits: list[dict[str, str]]) -> str:
    """Puts texts in the place of others in a file."""
    text = Path(path).read_text()
    for each in edits:
        text = text.replace(each["oldText"], each["newText"])
    Path(path).write_text(text)
    return "edited"


def ask(query: str) -> str:
    """Runs statements of SQL."""
    with closing(sqlite3.connect("account.db")) as book, book:
        book.executescript(query)
    return "done"


def refuse(code: int, why: str) -> str:
    """Refuses."""
    raise MCPError(code, why)


def wait(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return "done"


def die() -> str:
    """Ends the server."""
    os._exit(1)


if __name__ == "__main__":
    for tool in (pay_in, save_sheet, size, write, edit, ask, refuse, wait, die):
        server.add_tool(tool)
    server.run()
