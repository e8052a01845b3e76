"""All that needs torch: models, KV caches, attention, the engine's loop, the worker process."""
