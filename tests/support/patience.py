"""How long a test waits for what must come: long enough for a busy machine; what comes at once is still quick."""

from __future__ import annotations

PATIENCE_S = 300
PATIENCE_MS = PATIENCE_S * 1000
