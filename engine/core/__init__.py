"""The inference core: configuration, requests, schedulers, KV layouts, the recorder. Plain Python, without torch."""
