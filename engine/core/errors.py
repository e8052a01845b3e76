"""The error that names the setting it is about."""

from __future__ import annotations


class FieldError(ValueError):
    """A setting that cannot be used. `field` is its name, as an address and the command line (with `-`) write it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)  # both are args, so that a copy in another process keeps them
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return self.message
