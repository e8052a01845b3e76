"""Foreign text, commands and lists within a page's Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$:&-])")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+!|<>~$:&-])")


def plain(text: str) -> str:
    """Foreign text (a prompt, an answer, an error) escaped for Markdown, on one line.

    White space is collapsed to one space, except no-break spaces.
    """
    return _MARKDOWN.sub(r"\\\1", re.sub(r"[^\S\u00a0]+", " ", text).strip())


def unescaped(text: str) -> str:
    """What `plain` escaped, as it was."""
    return _ESCAPED.sub(r"\1", text)


def code(text: str) -> str:
    """A command as inline code. Backticks in it are removed, because Markdown escapes nothing within code."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else ""
