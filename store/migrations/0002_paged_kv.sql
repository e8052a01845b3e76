-- Columns and tables of the run log's schema 2: blocks and their holders, chunks, preemptions, CUDA graphs, and what
-- the reserved positions hold. Null for runs of schema 1, which did not log them.

ALTER TABLE runs ADD COLUMN block_size INTEGER; -- token positions per block; null where KV memory is not paged
ALTER TABLE runs ADD COLUMN max_num_batched_tokens INTEGER; -- tokens per step; null where prefill is not chunked
ALTER TABLE runs ADD COLUMN kv_blocks INTEGER; -- in the pool
ALTER TABLE runs ADD COLUMN damage VARCHAR; -- the unreadable part of its run log; null where there is none

ALTER TABLE requests ADD COLUMN preemptions INTEGER;

ALTER TABLE passes ADD COLUMN chunk_rows INTEGER;
ALTER TABLE passes ADD COLUMN tokens INTEGER;
ALTER TABLE passes ADD COLUMN bucket_tokens INTEGER;
ALTER TABLE passes ADD COLUMN recomputed_tokens INTEGER;
ALTER TABLE passes ADD COLUMN kv_padding_positions BIGINT;
ALTER TABLE passes ADD COLUMN kv_dead_positions BIGINT;
ALTER TABLE passes ADD COLUMN kv_fragment_positions BIGINT;

ALTER TABLE spans ADD COLUMN chunk INTEGER;

-- The run log's stream `blocks`.
CREATE TABLE block_events (
    run_id VARCHAR NOT NULL,
    block_id INTEGER NOT NULL,
    request_id INTEGER,
    table_index INTEGER,
    allocated BOOLEAN,
    pass_index INTEGER,
    time_s DOUBLE
);

CREATE TABLE events (
    run_id VARCHAR NOT NULL,
    event VARCHAR, -- preempt
    request_id INTEGER,
    lane INTEGER,
    blocks INTEGER,
    tokens INTEGER,
    pass_index INTEGER,
    time_s DOUBLE
);
