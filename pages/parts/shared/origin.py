"""Which web pages may use the app: those that the app itself has served, under a name that it is meant to have.

Streamlit refuses a WebSocket whose Host is not in `server.allowedHosts` (.streamlit/config.toml, or `make app HOSTS=…`)
and says so in the terminal: a page whose name was rebound to this machine (DNS rebinding) gets no session. Streamlit
accepts the origin of any port of localhost and of this machine's addresses. This module compares Origin with Host, so
that a page of another local server gets no session either.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import urlsplit

import streamlit as st
from streamlit import config, net_util

log = logging.getLogger(__name__)


def is_own_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page of this app. A browser always names the origin of a page; other clients need
    not."""
    origin = headers.get("Origin")
    if origin is None or origin in config.get_option("server.corsAllowedOrigins"):
        return True
    return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower()


def refuse_other_origins() -> bool:
    """Draw one line for a visitor whose page is not this app's. Returns whether that is so."""
    headers = st.context.headers
    if is_own_origin(headers):
        return False
    origin, host = headers.get("Origin"), headers.get("Host")
    log.warning("Refused a session of a page from %s: this app is %s.", origin, host)
    st.error("Another site's page asked for this session. Open the lab at its own address.", icon=":material/block:")
    return True


def ask_no_server_for_our_address() -> None:
    """Streamlit compares an unknown origin also with this machine's public address, which it asks of a server on the
    internet. The lab sends nothing there: no origin is this machine's public address."""
    net_util.get_external_ip = lambda: None
