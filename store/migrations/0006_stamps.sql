-- The state of a settled folder when it was last ingested: size and modification time of its files. A folder with the
-- same stamp is not read again. And which version of the checks of stored values a run has passed.

ALTER TABLE runs ADD COLUMN stamp VARCHAR; -- null for a run that may still grow
ALTER TABLE runs ADD COLUMN checked BIGINT; -- a hash of its files' text and of the checks; null: not checked yet
ALTER TABLE experiments ADD COLUMN stamp VARCHAR;
