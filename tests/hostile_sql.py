"""Statements that mean harm, and what each is told instead of an answer: in the sandbox, by command, from a page."""

from __future__ import annotations

# Refused before they run, or by DuckDB: the words are part of what is told.
REFUSED = {
    "insert": ("INSERT INTO runs (run_id) VALUES ('x')", "this is INSERT"),
    "update": ("UPDATE runs SET status = 'failed'", "this is UPDATE"),
    "delete": ("DELETE FROM tokens", "this is DELETE"),
    "drop": ("DROP TABLE runs", "this is DROP"),
    "create": ("CREATE TABLE mine AS SELECT 1 AS a", "this is CREATE"),
    "temporary table": ("CREATE TEMP TABLE mine AS SELECT 1 AS a", "this is CREATE"),
    "insert inside a select": ("WITH x AS (DELETE FROM runs RETURNING *) SELECT * FROM x", "this one holds DELETE"),
    "attach": ("ATTACH '/tmp/other.duckdb' AS other", "this is ATTACH"),
    "copy out": ("COPY runs TO '/tmp/runs.csv'", "this is COPY"),
    "copy in": ("COPY runs FROM '/etc/passwd'", "this is COPY"),
    "export": ("EXPORT DATABASE '/tmp/out'", "this is EXPORT"),
    "install": ("INSTALL httpfs", "this is LOAD"),
    "load": ("LOAD '/tmp/evil.duckdb_extension'", "this is LOAD"),
    "pragma": ("PRAGMA database_list", "this is PRAGMA"),
    "call": ("CALL pragma_database_size()", "this is CALL"),
    "set": ("SET memory_limit = '100GB'", "this is SET"),
    "unlock": ("SET lock_configuration = false", "this is SET"),
    "transaction": ("BEGIN", "this is TRANSACTION"),
    "prepare": ("PREPARE p AS SELECT 1", "this is PREPARE"),
    "two statements": ("SELECT 1; DROP TABLE runs", "this text holds 2 statements"),
    "explained write": ("EXPLAIN ANALYZE DELETE FROM runs", "this is DELETE"),
    "read_csv": ("SELECT * FROM read_csv('/etc/passwd')", "read_csv() cannot be read from here"),
    "read_parquet": ("SELECT * FROM read_parquet('/tmp/*.parquet')", "read_parquet() cannot be read from here"),
    "read_text": ("SELECT content FROM read_text('/etc/passwd')", "read_text() cannot be read from here"),
    "glob": ("SELECT * FROM glob('/*')", "glob() cannot be read from here"),
    "a file as a table": ("SELECT * FROM '/etc/passwd'", "does not exist"),
    "a file of rows as a table": ("SELECT * FROM '/tmp/x.parquet'", "file system operations are disabled"),
    "the environment": ("SELECT getenv('HOME')", "getenv does not exist"),
    "settings": ("SELECT * FROM duckdb_settings()", "duckdb_settings() cannot be read from here"),
    "one setting": ("SELECT current_setting('allowed_paths')", "current_setting() cannot be called here"),
    "where the file is": ("SELECT path FROM duckdb_databases()", "duckdb_databases() cannot be read from here"),
    "where the file is, as a view": ("FROM pragma_database_list", "pragma_database_list cannot be read from here"),
    "SQL in a string": ("FROM query('SELECT path FROM duckdb_' || 'databases()')", "query() cannot be read from here"),
    "memory by address": ("FROM arrow_scan(1, 2, 3)", "arrow_scan() cannot be read from here"),
    "logging to a file": ("FROM enable_logging(storage := 'file')", "enable_logging() cannot be read from here"),
}  # fmt: skip

# Stopped by the sandbox's bounds: for want of memory, or when their time is over.
STOPPED = {
    "a string of 2 GB": "SELECT repeat('x', 2000000000)",
    "many long strings": "SELECT repeat('x', 10000000) || i FROM range(10000) t(i)",
    "a padded string": "SELECT lpad('x', 2000000000, 'y')",
    "a list of 2 billion": "SELECT list_aggregate(range(2000000000), 'sum')",
    "a list of everything": "SELECT list(i) FROM range(1000000000) t(i)",
    "sorting without end": "SELECT i FROM range(1000000000) t(i) ORDER BY hash(i) LIMIT 1 OFFSET 900000000",
    "grouping without end": "SELECT count(*) FROM (SELECT hash(i) FROM range(1000000000) t(i) GROUP BY ALL)",
    "replaced a million times": "SELECT regexp_replace(repeat('a', 10000000), 'a', repeat('b', 1000), 'g')",
    "recursion without end": "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r",
    "a cross join": "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c",
    "a range of all": "SELECT sum(i) FROM range(1000000000000) t(i)",
    "sleep": "SELECT sleep_ms(100000)",
}
