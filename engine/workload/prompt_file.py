"""Prompt files: one prompt per line, the same for the command line and the pages.

Lines end at a newline alone, so that other separators (U+2028, U+0085, vertical tab) stay part of a prompt. Blank lines
are skipped, blanks around a prompt are removed. Only regular files are read, and their size is checked before.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.core.errors import FieldError
from engine.core.format import exact
from engine.core.units import MIB

MAX_PROMPT_FILE_BYTES = 20 * MIB


def read_prompt_file(path: Path) -> tuple[str, ...]:
    """The prompts of a file. FieldError with the reason if the file is unusable."""
    try:
        # A pipe without a writer would block an open; O_NONBLOCK has no effect on regular files.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FieldError("prompt_file", f"prompt file {path}: not a regular file; name a text file")
            content = file.read(MAX_PROMPT_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FieldError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise FieldError("prompt_file", f"prompt file {path}: {reason}; name a readable text file") from None
    return prompt_lines(content, f"prompt file {path}")


def prompt_lines(content: bytes, name: str) -> tuple[str, ...]:
    """The prompts in a file's content. FieldError that begins with `name` if it is too large, no text, or blank."""
    if len(content) > MAX_PROMPT_FILE_BYTES:
        most = exact(MAX_PROMPT_FILE_BYTES // MIB, "MiB")
        raise FieldError("prompt_file", f"{name}: larger than {most}; use fewer or shorter prompts")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FieldError("prompt_file", f"{name}: not UTF-8 text; save it as UTF-8") from None
    lines = tuple(line.strip() for line in text.split("\n") if line.strip())
    if not lines:
        raise FieldError("prompt_file", f"{name}: no prompts in it; write one prompt per line")
    return lines
