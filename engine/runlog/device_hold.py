"""Exclusive use of a device: a process that measures holds the device's lock; others wait and see who holds it.

All labs of a user share the locks (in LAB_CACHE), each with its own LAB_HOME. A run id means nothing in another lab, so
the lock's text also names the LAB_HOME of the holder.
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
    """Hold the device `name` for `what` (`run 01hz…`). While another process holds it, `on_wait` gets one line about
    it.

    InterruptedError if `should_stop` turns true before the device is free.
    """
    home = lab_home()
    return hold(
        device_lock(name),
        purpose=f"{what} of the lab in {home}",
        on_wait=lambda holder: on_wait(busy_message(holder, home)),
        should_stop=should_stop,
    )


def busy_message(holder: str, home: Path) -> str:
    """The message for a process of the lab in `home` that waits: what holds the device, in which lab, and what to do.

    A lock text in another form is passed on unchanged.
    """
    match = HOLDER.fullmatch(holder)
    if match is None:
        return f"the device is in use: {holder}"
    process, what, holder_home = match.groups()
    if holder_home == str(home):
        return f"the device is in use by {what} of this lab (process {process})"
    return (
        f"the device is in use by {what} of another lab, LAB_HOME {holder_home} (process {process}); "
        "this starts when that ends or is canceled there"
    )
