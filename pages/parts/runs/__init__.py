"""A kit about recorded runs, used by Run, Compare, History and others: loading, text, badges, requests, latencies."""
