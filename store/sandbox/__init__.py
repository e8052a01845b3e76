"""The sandbox: runs untrusted SQL queries, each in its own process that can only read a snapshot."""

from store.sandbox.answer import Answer, Place, Refusal
from store.sandbox.asking import Asking, Limits, ask
from store.sandbox.turns import Turns

__all__ = ["Answer", "Asking", "Limits", "Place", "Refusal", "Turns", "ask"]
