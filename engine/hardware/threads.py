"""The time OpenMP's threads spin at a barrier before they sleep; it must be set before torch is loaded.

A run shares its machine with the app and the browser. GNU OpenMP's threads spin for long by default: one busy process
on two cores made small matrix products 6.5 times slower. With short spinning it is 2.1 times, at a cost of about 5 % on
an idle machine.
"""

from __future__ import annotations

from collections.abc import Mapping

BRIEF_SPINS = "2000"
SPIN_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def brief_spinning(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to `environment`; none if the user has set their own."""
    return {} if any(name in environment for name in SPIN_VARIABLES) else {"GOMP_SPINCOUNT": BRIEF_SPINS}
