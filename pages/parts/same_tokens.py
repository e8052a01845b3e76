"""Whether runs said the same: their token ids compared, request by request.

Greedy decoding of the same requests should give the same tokens whatever the engine. Where a token differs, two
candidates were most likely closer to each other than the dtype can tell apart; from there on the answers part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pages.parts.format import count, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far two runs said the same. `requests` were answered in both, `equal` of them token for token.

    `first_apart` is each differing request's first token index that differs, or where one answer ends and the other
    goes on. `only_in_one` requests have tokens in one run alone.
    """

    requests: int
    equal: int
    tokens: int
    first_apart: dict[int, int]
    only_in_one: int

    @property
    def is_full(self) -> bool:
        return self.requests > 0 and not self.first_apart and not self.only_in_one


def agreement(first: pd.DataFrame, second: pd.DataFrame, *, as_far_as_both: bool = False) -> Agreement:
    """Compare two runs' tokens (request_id, token_index, token_id, in any order).

    `as_far_as_both` compares only what both logged: for a run that was cut off, an answer that ends early is no
    difference.
    """
    key = ["request_id", "token_index"]
    both = pd.merge(first[[*key, "token_id"]], second[[*key, "token_id"]], on=key, how="outer", suffixes=("_a", "_b"))
    shared = set(first["request_id"]) & set(second["request_id"])
    only_in_one = len(set(both["request_id"]) - shared)
    both = both[both["request_id"].isin(shared)]
    in_both = both["token_id_a"].notna() & both["token_id_b"].notna()
    apart = in_both & (both["token_id_a"] != both["token_id_b"])
    if not as_far_as_both:
        apart |= ~in_both
    first_apart = both[apart].groupby("request_id")["token_index"].min()
    return Agreement(
        requests=len(shared),
        equal=len(shared) - len(first_apart),
        tokens=int(np.count_nonzero(in_both)),
        first_apart=dict(zip(first_apart.index.tolist(), first_apart.tolist(), strict=True)),
        only_in_one=0 if as_far_as_both else only_in_one,
    )


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
