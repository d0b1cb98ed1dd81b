"""TRL's training templates: chat templates that append, for families whose own rewrites history."""

from typing import Any

from trl.chat_template_utils import get_training_chat_template


def appending(tokenizer: Any) -> str | None:
    """TRL's training template for `tokenizer`; None where it has none."""
    try:
        template: str | None = get_training_chat_template(tokenizer)
    except ValueError:
        return None
    return template
