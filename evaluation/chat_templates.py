"""One rule for the history of a conversation: a policy goes on reading the reasoning in its own earlier replies.

So it is in rollouts and loss, and with local weights here, where history is tokens that nobody renders again. Behind an
endpoint the server renders it, and the chat templates of some reasoning models leave earlier reasoning out: such a
policy would be scored on other conversations than it was trained in.
"""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp

from rods.errors import UserError

SECONDS = 30.0
ASIDE = "<think>\nOne after the other.\n</think>\n\n"


async def refuse_another_rule(model: str, bases: Sequence[str]) -> None:
    """Has the servers at `bases` (…/v1) render a conversation with reasoning in it, where they can (vLLM). Raises
    UserError when they leave it out."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as session:
        for base in bases:
            address = f"{base.removesuffix('/v1')}/tokenize"
            whole = await _tokens(session, address, model, f"{ASIDE}Done.")
            if whole is not None and whole == await _tokens(session, address, model, "Done."):
                raise UserError(
                    "the server's chat template leaves out earlier reasoning, which the policy was trained to read",
                    where=base,
                    remedy="serve it with --chat-template and one that keeps it, or score the local weights",
                )


async def _tokens(session: aiohttp.ClientSession, address: str, model: str, reply: str) -> list[int] | None:
    """The conversation as the server would prompt the policy with it; None where it does not say."""
    said = (("user", "Begin."), ("assistant", reply), ("user", "Go on."))
    messages = [{"role": role, "content": content} for role, content in said]
    try:
        async with session.post(address, json={"model": model, "messages": messages}) as answer:
            found = await answer.json(content_type=None) if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None  # whoever calls it next will hear why
    return found.get("tokens") if isinstance(found, dict) else None
