-- attempt_log: every attempt of a delivery, one JSON object per line, oldest first: time, status, start of the answer, error, and duration.
-- Null for a single attempt, which is in the other columns, and for deliveries that were made before this column existed.
ALTER TABLE webhook_delivery ADD COLUMN attempt_log TEXT;
-- samples: the sets of variable values for previews and tests, a JSON array; null without any. They belong to the template, not to a version.
ALTER TABLE template ADD COLUMN samples TEXT;
-- suspension_reason: what the operator wrote when the account was suspended; null for an active account.
ALTER TABLE account ADD COLUMN suspension_reason TEXT;
