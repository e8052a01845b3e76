"""The kit of the pages that show experiments: Sweep, Load and Repeats. It imports no page's folder."""
