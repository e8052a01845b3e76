"""Makes a folder of `frontend` known to Streamlit as a component, with its files served by the app itself.

Streamlit finds components of installed packages; the lab runs from its folder, so it names them. `<name>/<name>.js` has
a default export, `<name>/<name>.css` its style. A browser loads each file once, however often the page is drawn.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

PACKAGE = "lab"
FRONTEND = Path(__file__).parent / "frontend"

log = logging.getLogger(__name__)


def mount(name: str, **arguments: Any) -> None:
    """Draw the component `name` with Streamlit's arguments for one (key, data, on_<event>_change).

    A version of Streamlit that cannot is named in the log; what the component adds to is on the page without it.
    """
    try:
        _registered(name)(**arguments)
    except (ImportError, AttributeError, TypeError, StreamlitAPIException) as error:
        log.warning("Component %s is not drawn: %s", name, error)


def _registered(name: str) -> Callable[..., Any]:
    from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
    from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

    manager, full_name = get_bidi_component_manager(), f"{PACKAGE}.{name}"
    if manager.get_component_path(full_name) is None:
        component = ComponentConfig(name=name, asset_dir=name)
        manager.register_from_manifest(ComponentManifest(name=PACKAGE, version="1", components=[component]), FRONTEND)
    renderer: Callable[..., Any] = st.components.v2.component(full_name, js=f"{name}.js", css=f"{name}.css")
    return renderer


def class_of(key: str) -> str:
    """The part of its CSS class by which a component finds an element with this key on the page."""
    return re.sub(r"[^a-zA-Z0-9_-]", "-", key.strip())
