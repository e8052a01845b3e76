"""Questions in SQL that nobody has read before they run: each in a process of its own that can only read a snapshot."""

from store.sandbox.answer import Answer, Place, Refusal
from store.sandbox.asking import Asking, Limits, ask

__all__ = ["Answer", "Asking", "Limits", "Place", "Refusal", "ask"]
