-- What people say of a run, and what the checks of validity say of it. Notes and tags belong to the run's id and not to
-- its rows: they stay when a run is deleted into the trash, and when its log is taken in once more.

ALTER TABLE runs ADD COLUMN log_bytes BIGINT; -- its run log on disk, as of the last look

-- engine/validity/validity.py, one row a check of a run that is over.
CREATE TABLE run_checks (
    run_id VARCHAR NOT NULL,
    check_name VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL, -- pass, fail, not applicable
    value DOUBLE, -- the figure that was judged, and what it was held against; null where none was counted
    threshold DOUBLE,
    finding VARCHAR NOT NULL -- one sentence with the run's own figures
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
