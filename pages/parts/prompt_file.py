"""The upload of a file of prompts: one a line, UTF-8, kept for the visit so that leaving the page loses nothing."""

from __future__ import annotations

import streamlit as st

from engine.core.format import exact, plural
from engine.core.units import MIB
from pages.parts.markdown import plain
from pages.parts.page_state import page_key

KEPT = "lab.prompt_lines"
MAX_BYTES = 20 * MIB


def read_prompts(content: bytes) -> tuple[str, ...]:
    """The lines that hold something, in order. ValueError for what is no text, and for a file with no prompt."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"the file is larger than {exact(MAX_BYTES >> 20, 'MiB')}; use fewer or shorter prompts")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8 text; save it as UTF-8, one prompt a line") from None
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise ValueError("the file holds no prompts; write one prompt a line")
    return lines


def draw_prompt_file() -> tuple[str, ...]:
    """The uploader and what is in hand. Empty when there is no usable file; a bad one says why and changes nothing."""
    upload = st.file_uploader("Prompts, one a line", type=["txt", "md", "text"], key=page_key("prompt_file"))
    if upload is not None:
        try:
            st.session_state[KEPT] = (upload.name, read_prompts(upload.getvalue()))
        except ValueError as error:
            st.markdown(f":red[:material/error: {plain(upload.name)}: {plain(str(error))}]")
    name, lines = st.session_state.get(KEPT, ("", ()))
    if lines:
        st.caption(
            f"In hand: {plural(len(lines), 'prompt')} of {plain(name)}. A link to this page does not carry them."
        )
    return tuple(lines)
