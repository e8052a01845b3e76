"""The error that names the setting it is about."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.format import breakable, size


class FieldError(ValueError):
    """A setting that cannot be used. `field` is its name, as an address and the command line (with `-`) write it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)  # both are args, so that a copy in another process keeps them
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return self.message


# An allocation that failed, told as facts: how much was asked for, what was free, in which shape.


@dataclass(eq=False)
class EngineOutOfMemory(Exception):
    """Raised where the lab itself refuses an allocation: over a cap that a person set."""

    asked_bytes: int | None
    free_bytes: int | None
    shape: str
    where: str

    def facts(self) -> dict[str, int | str | None]:
        """Plain JSON values, as result.json and an experiment's records hold them."""
        return {
            "asked_bytes": self.asked_bytes,
            "free_bytes": self.free_bytes,
            "shape": self.shape,
            "where": self.where,
        }

    def __str__(self) -> str:
        asked = "memory" if self.asked_bytes is None else size(self.asked_bytes)
        free = "" if self.free_bytes is None else f", {size(self.free_bytes)} were free"
        return breakable(f"out of memory: {self.where} asked for {asked} ({self.shape}){free}")
