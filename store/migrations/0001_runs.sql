-- The run log's tables, each row with its run id, and the tables of runs and experiments. Timestamps are in UTC;
-- columns ending in _s are seconds on the run's clock.

CREATE TABLE experiments (
    experiment_id VARCHAR NOT NULL,
    kind VARCHAR, -- pair, repeats
    label VARCHAR,
    created_at TIMESTAMP
);

CREATE TABLE runs (
    run_id VARCHAR NOT NULL,
    folder VARCHAR NOT NULL, -- where its run log was last found
    status VARCHAR NOT NULL, -- running, completed, stopped, oom, failed, crashed
    error VARCHAR,
    created_at TIMESTAMP,
    ended_at TIMESTAMP,
    experiment_id VARCHAR,
    engine VARCHAR,
    policy VARCHAR,
    kv_layout VARCHAR,
    execution VARCHAR,
    timing VARCHAR,
    model VARCHAR,
    dtype VARCHAR,
    random_weights BOOLEAN,
    device VARCHAR, -- cpu, cuda
    device_name VARCHAR,
    slots INTEGER,
    workload_requests INTEGER, -- requests in the workload, whether they arrived or not
    workload_digest VARCHAR,
    simulated BOOLEAN,
    watched BOOLEAN,
    schema_version INTEGER,
    run_info VARCHAR NOT NULL, -- run.json, whole
    result VARCHAR -- result.json, whole
);

CREATE TABLE requests (
    run_id VARCHAR NOT NULL,
    request_id INTEGER NOT NULL,
    state VARCHAR,
    label VARCHAR,
    prompt_tokens INTEGER,
    asked_prompt_tokens INTEGER,
    budget_tokens INTEGER,
    ignore_eos BOOLEAN,
    arrival_s DOUBLE,
    submitted_s DOUBLE,
    admitted_s DOUBLE,
    finished_s DOUBLE,
    returned_s DOUBLE,
    lane INTEGER,
    output_tokens INTEGER,
    finish_reason VARCHAR,
    prompt_text VARCHAR,
    output_text VARCHAR
);

CREATE TABLE passes (
    run_id VARCHAR NOT NULL,
    pass_index INTEGER NOT NULL,
    step INTEGER,
    kind VARCHAR,
    start_s DOUBLE,
    end_s DOUBLE,
    issue_s DOUBLE,
    device_s DOUBLE,
    rows INTEGER,
    live_rows INTEGER,
    width INTEGER,
    masked BOOLEAN,
    prompt_tokens INTEGER,
    queue_depth INTEGER,
    computed_positions BIGINT,
    padding_positions BIGINT,
    dead_positions BIGINT,
    kv_reserved_positions BIGINT,
    kv_used_positions BIGINT
);

CREATE TABLE tokens (
    run_id VARCHAR NOT NULL,
    request_id INTEGER NOT NULL,
    token_index INTEGER NOT NULL,
    token_id INTEGER,
    pass_index INTEGER,
    produced_s DOUBLE,
    delivered_s DOUBLE
);

CREATE TABLE spans (
    run_id VARCHAR NOT NULL,
    span_id INTEGER NOT NULL,
    lane INTEGER,
    slot INTEGER,
    request_id INTEGER,
    phase VARCHAR,
    start_pass INTEGER,
    end_pass INTEGER,
    start_s DOUBLE,
    end_s DOUBLE
);

CREATE TABLE memory (
    run_id VARCHAR NOT NULL,
    time_s DOUBLE,
    pass_index INTEGER,
    allocated_bytes BIGINT,
    peak_bytes BIGINT,
    kv_bytes BIGINT,
    free_bytes BIGINT
);

CREATE TABLE calibrations (
    file VARCHAR NOT NULL,
    device VARCHAR,
    device_name VARCHAR,
    measured_at TIMESTAMP,
    model VARCHAR,
    dtype VARCHAR,
    read_bytes_per_s DOUBLE,
    copy_bytes_per_s DOUBLE,
    launch_s DOUBLE,
    pass_s DOUBLE,
    calibration VARCHAR NOT NULL -- the whole file, JSON
);

-- How far each stream of each run is ingested. Written in the transaction that inserts the rows.
CREATE TABLE ingest_progress (
    run_id VARCHAR NOT NULL,
    stream VARCHAR NOT NULL,
    offset_bytes BIGINT NOT NULL,
    rows BIGINT NOT NULL
);
