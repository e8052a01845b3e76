"""How long OpenMP's threads spin at a barrier before they sleep: set before torch is loaded, or not at all.

A run shares its machine with the app and with whoever watches it. By default GNU OpenMP's threads spin on, and one
busy neighbor on two cores made small products 6.5 times slower; spinning briefly, 2.1 times, at a cost of some 5 % on
a quiet machine.
"""

from __future__ import annotations

from collections.abc import Mapping

BRIEF_SPINS = "2000"
SPIN_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def brief_spinning(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to add to `environment`: none where a person has set their own."""
    return {} if any(name in environment for name in SPIN_VARIABLES) else {"GOMP_SPINCOUNT": BRIEF_SPINS}
