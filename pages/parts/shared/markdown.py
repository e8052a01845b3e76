"""How foreign text, commands and lists are written within a page's Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|<>~$:&-])")


def plain(text: str) -> str:
    """Foreign text (a prompt, an answer, an error) that Markdown must show as it is, on one line.

    Lines and rows of spaces become one space; a no-break space stays.
    """
    return _MARKDOWN.sub(r"\\\1", re.sub(r"[^\S\u00a0]+", " ", text).strip())


def code(text: str) -> str:
    """A command that may hold foreign text, as code within Markdown, where nothing is escaped: no backtick ends it."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""
