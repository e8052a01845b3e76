"""Having a device to oneself: whoever measures holds its lock, and who waits for it hears whose it is.

A user's labs share the locks (LAB_CACHE names their folder), each with a LAB_HOME of its own: a run's id alone would
say nothing to the others, so the holder says where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from engine.core.home import device_lock, lab_home
from engine.runlog.locks import hold

HOLDER = re.compile(r"process (\d+), (.+?) of the lab in (.+)", re.DOTALL)


def hold_device(
    name: str,
    what: str,
    on_wait: Callable[[str], object],
    should_stop: Callable[[], bool] = lambda: False,
) -> AbstractContextManager[None]:
    """Have the device `name` for `what` (`run 01hz…`). While it is another's, `on_wait` hears whose, in one line.

    InterruptedError when `should_stop` turns true before it is free.
    """
    home = lab_home()
    return hold(
        device_lock(name),
        purpose=f"{what} of the lab in {home}",
        on_wait=lambda holder: on_wait(taken_text(holder, home)),
        should_stop=should_stop,
    )


def taken_text(holder: str, home: Path) -> str:
    """A lock's text for somebody of the lab in `home` who waits: what has the device, whose it is, and what to do.

    What does not say whose it is, is passed on as it is.
    """
    match = HOLDER.fullmatch(holder)
    if match is None:
        return f"the device is taken: {holder}"
    process, what, whose = match.groups()
    if whose == str(home):
        return f"the device is taken: {what} of this lab has it (process {process})"
    return (
        f"the device is taken: {what} of another lab has it, the one whose LAB_HOME is {whose} (process {process}); "
        "this starts by itself when that ends, or is canceled there"
    )
