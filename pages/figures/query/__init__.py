"""Charts of a query's answer."""
