"""The text of a page, by the libraries that BFCL's class uses, in a worker's process: a page may
hold whatever its author likes."""

from typing import Any


def text(request: dict[str, Any]) -> str:
    """{"page": HTML, "mode": "markdown" | "truncate"} → its text."""
    if request["mode"] == "markdown":
        import html2text

        return str(html2text.HTML2Text().handle(request["page"]))
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(request["page"], "html.parser")
    for unread in soup(["script", "style"]):
        unread.extract()
    return str(soup.get_text(separator="\n", strip=True))
