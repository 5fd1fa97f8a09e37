-- What small content was when it was accepted, so that a row whose bytes changed on the disk is never sent. Null for larger content,
-- whose blob names its digest, and for rows from before this column.
ALTER TABLE email ADD COLUMN content_digest BYTEA;
