"""The control Share: a report to download, the same as Markdown to copy, and what else a page adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from engine.core.config import RunConfig
from engine.hardware.vllm_command import VllmCommand, vllm_command
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key

MARKDOWN_PX = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Shareable:
    """What can be shared of a page. `html` is called in a thread without a Streamlit session.

    `vllm` is for one run. `draw_more` draws further downloads.
    """

    file_name: str
    html: Callable[[], str]
    markdown: Callable[[], str]
    vllm: VllmCommand | None = None
    draw_more: Callable[[], None] = lambda: None


def share(what: Shareable) -> None:
    """Draw the control. Its contents are made when it is opened."""
    box = st.popover("Share", icon=":material/share:", on_change="rerun", key=page_key("share"))
    if not box.open:
        return
    with box:
        with st.container(horizontal=True):
            st.download_button(
                "Report (HTML)",
                what.html,
                file_name=f"{what.file_name}.html",
                mime="text/html",
                icon=":material/download:",
                on_click="ignore",
                type="primary",
                help="One file with the figures, findings, settings and the command; it opens without a network",
                key=page_key("share_report"),
            )
            what.draw_more()
        st.markdown("**As Markdown**: finding, settings, metrics, command, run ids")
        st.code(what.markdown(), language="markdown", height=MARKDOWN_PX)
        if what.vllm is not None:
            draw_vllm(what.vllm)
        st.caption("PNG and SVG of a figure are in its toolbar, CSV of a table is below it or in its toolbar.")


def draw_vllm_popover(config: RunConfig, *, gpus: int = 1) -> None:
    """The `vllm serve` command of a setting, behind a button."""
    with st.popover("Copy as vllm serve flags", icon=":material/terminal:", type="tertiary"):
        draw_vllm(vllm_command(config, gpus=gpus))


def draw_vllm(command: VllmCommand) -> None:
    """A `vllm serve` command to copy, with what has no counterpart."""
    st.markdown("**As vllm serve flags**")
    if command.command:
        st.code(command.command, language="bash", wrap_lines=True)
    for note in command.notes:
        st.caption(plain(note))
