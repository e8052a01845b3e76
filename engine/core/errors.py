"""The errors that the lab raises on purpose: a setting that cannot be used, and memory that is not available."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.format import breakable, size

MAX_LINE = 600  # characters of an error; what a user typed may be megabytes long


def first_line(error: BaseException | str) -> str:
    """An error in one line of at most MAX_LINE characters: its start and its end, which says what to do.

    An error of the file system is told without its number and quotes, an empty one by its type.
    """
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error).strip() or type(error).__name__
    return shortened(text.splitlines()[0])


def shortened(line: str) -> str:
    """A line of at most MAX_LINE characters: the middle of a longer one is left out."""
    if len(line) <= MAX_LINE:
        return line
    kept = (MAX_LINE - 1) // 2
    return f"{line[:kept]}…{line[-kept:]}"


class FieldError(ValueError):
    """A setting that cannot be used. `field` is its name in an address; the command line writes it with `-`.

    `message` says how to fix it. A page that shows it beside the setting leaves out the `subject`, such as `hardware
    this`; elsewhere the subject comes first.
    """

    def __init__(self, field: str, message: str, subject: str = "") -> None:
        super().__init__(field, message, subject)  # all are args, so pickling keeps them
        self.field = field
        self.message = message
        self.subject = subject

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}" if self.subject else self.message


@dataclass(eq=False)
class EngineOutOfMemory(Exception):
    """An allocation failed or exceeds a memory limit that the user set. `shape` and `where` say what was allocated."""

    asked_bytes: int | None
    free_bytes: int | None
    shape: str
    where: str

    def to_dict(self) -> dict[str, int | str | None]:
        """Plain JSON values, as in result.json and an experiment's records."""
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
