-- Annotations of runs, and the results of the validity checks. Notes and tags are keyed by run id: they stay when a run
-- is moved to the trash, and when its log is ingested again.

ALTER TABLE runs ADD COLUMN log_bytes BIGINT; -- its run log on disk, at the last ingest

-- engine/validity/validity.py, one row per check of an ended run.
CREATE TABLE run_checks (
    run_id VARCHAR NOT NULL,
    check_name VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL, -- pass, fail, not applicable
    value DOUBLE, -- the checked value and its limit; null where nothing was counted
    threshold DOUBLE,
    finding VARCHAR NOT NULL -- one sentence with the run's numbers
);

CREATE TABLE run_notes (
    run_id VARCHAR NOT NULL,
    pinned BOOLEAN NOT NULL,
    note VARCHAR NOT NULL
);

CREATE TABLE run_tags (
    run_id VARCHAR NOT NULL,
    tag VARCHAR NOT NULL
);
