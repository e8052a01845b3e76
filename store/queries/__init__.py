"""What pages ask of the store, by subject: runs, experiments, the history, passes, KV memory, latencies."""
