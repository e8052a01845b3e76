"""Whether runs said the same, in a sentence.

Greedy decoding of the same requests should give the same tokens whatever the engine. Where a token differs, two
candidates were most likely closer to each other than the dtype can tell apart; from there on the answers part.
"""

from __future__ import annotations

from engine.core.format import count, plural
from store.queries.agreement import Agreement


def agreement_words(first: str, second: str, found: Agreement, *, as_far_as_both: bool = False) -> str:
    """The finding as one sentence; token numbers count from 1, as a reader counts."""
    if not found.requests:
        return f"{first} and {second} have no request in common that both answered."
    far = " as far as both went" if as_far_as_both else ""
    alone = (
        f" {plural(found.only_in_one, 'request')} got an answer from one of them alone." if found.only_in_one else ""
    )
    if not found.first_apart:
        both = f"{first} and {second} said the same{far}"
        return f"{both}: all {plural(found.tokens, 'token')} of {plural(found.requests, 'request')} are equal.{alone}"
    request = min(found.first_apart)
    place = f"request {request} parts at its token {count(found.first_apart[request] + 1)}"
    return (
        f"{count(found.equal)} of {plural(found.requests, 'answer')} by {first} and {second} are equal token for "
        f"token{far}; {place}.{alone}"
    )
