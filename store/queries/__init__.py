"""The store's queries for the pages, by subject: runs, experiments, history, passes, KV memory, latencies."""
