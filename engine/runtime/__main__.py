"""The worker's process, `python -m engine.runtime`: it ends with its parent, also while torch is being imported."""

from __future__ import annotations

from engine.runtime.parent_death import die_with_parent


def main() -> None:
    """Serve the commands on stdin until it closes."""
    die_with_parent()
    from engine.runtime.worker import serve  # imports torch, which takes seconds

    serve()


if __name__ == "__main__":
    main()
