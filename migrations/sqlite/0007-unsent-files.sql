-- What the unsent files of an account may take. `counted_bytes` is what a submission counts for: the declared size of its files,
-- or more where that is next to nothing; `has_files` tells that some of their bytes may be stored. One index finds those whose
-- URLs live, the other those whose files stay until they are sent or removed; each holds all that is asked of it.
ALTER TABLE attachment_submission ADD COLUMN counted_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attachment_submission ADD COLUMN has_files INTEGER NOT NULL DEFAULT 0;
UPDATE attachment_submission SET
  counted_bytes =
    (SELECT COALESCE(sum(f.size_bytes), 0) FROM attachment_file f WHERE f.submission_id = attachment_submission.id),
  has_files = CASE WHEN EXISTS
    (SELECT 1 FROM attachment_file f WHERE f.submission_id = attachment_submission.id AND f.blob_key IS NOT NULL)
    THEN 1 ELSE 0 END
WHERE used_at IS NULL;
DROP INDEX attachment_submission_open;
CREATE INDEX attachment_submission_live
  ON attachment_submission (account_id, mode, expires_at, has_files, counted_bytes, used_at) WHERE used_at IS NULL;
CREATE INDEX attachment_submission_stored
  ON attachment_submission (account_id, mode, expires_at, counted_bytes, has_files, used_at)
  WHERE used_at IS NULL AND has_files = 1;
