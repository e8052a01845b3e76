"""When the static engine forms a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

from engine.core.errors import FieldError


@dataclass(frozen=True, slots=True, kw_only=True)
class FormRule:
    """When to form a static batch: at once from `arrived` requests, when `full`, or when full or after `timeout:S`."""

    rule: Literal["arrived", "full", "timeout"] = "arrived"
    timeout_s: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `arrived`, `full` or `timeout:S`, S in seconds. A ValueError names the accepted forms."""
        if text == "arrived":
            return cls(rule="arrived")
        if text == "full":
            return cls(rule="full")
        name, _, seconds = text.partition(":")
        try:
            timeout_s = float(seconds)
        except ValueError:
            timeout_s = math.nan
        if name != "timeout" or not (math.isfinite(timeout_s) and timeout_s > 0):
            raise FieldError(
                "form", f"form {text!r}: use arrived, full or timeout:S with S in seconds above 0, as timeout:2"
            )
        return cls(rule="timeout", timeout_s=timeout_s)

    def __str__(self) -> str:
        # repr keeps every digit.
        return f"timeout:{self.timeout_s!r}".removesuffix(".0") if self.rule == "timeout" else self.rule
