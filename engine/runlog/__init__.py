"""The run log, a run's files on disk: schema, writer, reader and locks; and the log of an experiment."""
