"""The real schedulers under a virtual clock."""
