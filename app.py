"""The batching lab's app, started by `streamlit run app.py`: its pages, navigation and style."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts.shared.components.page_scripts import draw_page_scripts
from pages.parts.shared.components.term_hover import draw_term_hover
from pages.parts.shared.entry_guard import enter
from pages.parts.shared.lab import draw_visitor_script, lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.origin import ask_no_server_for_our_address, refuse_other_origins
from pages.parts.shared.page_state import arrive, draw_history_script
from store import StoreHeld

# A local file: an icon by name makes every visitor's browser load a font from a server.
ICON = str(Path(__file__).parent / "pages" / "parts" / "shared" / "favicon.png")
STYLE = """<style>
.stMainBlockContainer {padding-top: 4.5rem; padding-bottom: 4rem}
.st-key-lab-script {display: none}
.stMain [data-testid="stCaptionContainer"] {color: inherit; opacity: 0.75}
.stMain [data-testid="stMarkdownContainer"] table {
  display: block; overflow-x: auto; width: max-content; max-width: 100%}
[data-testid="stExpandSidebarButton"] {width: auto}
[data-testid="stExpandSidebarButton"]::after {content: "Menu"; padding-left: 0.25rem}
@media (max-width: 640px) {.stMain .modebar-container {display: none}}
</style>"""
LOGO = str(Path(__file__).parent / "pages" / "parts" / "shared" / "logo.svg")
BENCH = st.Page("pages/bench.py", title="Bench", icon=":material/tune:", url_path="", default=True)
# The menu's four groups, in the order of work: make runs, look at them, estimate without a run, ask and learn.
PAGES = {
    "Measure": [
        BENCH,
        st.Page("pages/sweep.py", title="Sweep", icon=":material/stacked_line_chart:", url_path="sweep"),
        st.Page("pages/load.py", title="Load", icon=":material/show_chart:", url_path="load"),
    ],
    "Results": [
        st.Page("pages/history.py", title="History", icon=":material/history:", url_path="history"),
        st.Page("pages/run.py", title="Run", icon=":material/view_timeline:", url_path="run"),
        st.Page("pages/compare.py", title="Compare", icon=":material/compare_arrows:", url_path="compare"),
        st.Page("pages/repeats.py", title="Repeats", icon=":material/repeat:", url_path="repeats"),
    ],
    "Estimate": [
        st.Page("pages/memory.py", title="Memory", icon=":material/memory:", url_path="memory"),
        st.Page("pages/roofline.py", title="Roofline", icon=":material/roofing:", url_path="roofline"),
        st.Page("pages/what_if.py", title="What if", icon=":material/function:", url_path="what_if"),
    ],
    "Learn": [
        st.Page("pages/predictions.py", title="Predictions", icon=":material/psychology:", url_path="predictions"),
        st.Page("pages/query.py", title="Query", icon=":material/database_search:", url_path="query"),
        st.Page("pages/glossary.py", title="Glossary", icon=":material/dictionary:", url_path="glossary"),
        # The default page is at / only; this also serves it at /bench. It is last, because links use the first entry.
        st.Page("pages/bench.py", title="Bench", icon=":material/tune:", url_path="bench", visibility="hidden"),
    ],
}


def main() -> None:
    """Set up navigation and style, open the lab's services, and run the page in the address."""
    ask_no_server_for_our_address()
    st.set_page_config(page_title="The batching lab", page_icon=ICON, layout="wide")
    if refuse_other_origins():
        return
    st.logo(LOGO, size="large")
    page = st.navigation(PAGES, position="top")
    arrive(page.url_path)
    st.html(STYLE)
    with st.container(key="lab-script"):
        draw_history_script()
        draw_visitor_script()
        draw_term_hover()
        draw_page_scripts()
    try:
        lab()
    except StoreHeld as error:
        st.title("The batching lab", anchor=False)
        st.error(f"The store is in use: {plain(str(error))}", icon=":material/lock:")
        return
    except (OSError, ValueError) as error:
        st.title("The batching lab", anchor=False)
        st.error(
            f"Cannot use the lab's folder: {plain(str(error))}. Set LAB_HOME to another folder.",
            icon=":material/folder_off:",
        )
        return
    enter(page.run)


main()
