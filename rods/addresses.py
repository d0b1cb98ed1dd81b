"""Addresses of language-model servers: what one looks like, and that none carries a secret."""

from __future__ import annotations

from urllib.parse import urlsplit


def base_address(text: str) -> str:
    """`text` as the base address to which `/chat/completions` is added; a bare `http://host:port` gets its `/v1`.

    Raises ValueError for anything else. The message never repeats a part that may hold a password or a key.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError("not an address like http://host:8000/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an address like http://host:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("an address must hold no user name, password or query: name a key by key_env or key_file")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path or '/v1'}"


def addresses(text: str) -> list[str]:
    """The addresses in a file of one a line; blank lines and those that begin with # say nothing. Raises ValueError
    naming the line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                found.append(base_address(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    return found
