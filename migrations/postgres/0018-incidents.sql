-- Why a message waits for its next attempt: the group of what fails alike, as the delivery names it, and when it failed last (by the
-- clock of its mode). Null for what was never put off, which has no place in the index and pays nothing for it.
ALTER TABLE work ADD COLUMN cause TEXT COLLATE "C";
ALTER TABLE work ADD COLUMN failed_at BIGINT;
CREATE INDEX work_by_cause ON work (account_id, mode, cause, seq, due, failed_at) WHERE cause IS NOT NULL;

-- Since when the record of a domain that was verified is gone; null while it is there.
ALTER TABLE domain ADD COLUMN failing_since BIGINT;
