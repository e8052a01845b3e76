"""The subcommands of `python -m engine`, one a file: each adds its arguments and runs."""
