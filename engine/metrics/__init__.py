"""Every number the lab reports: its definition, unit, formula and computation."""
