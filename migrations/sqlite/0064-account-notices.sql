-- Notices to the users of an account that an operator suspended or reactivated, until they are sent. status: the status since then. reason:
-- the operator's text about a suspension.
CREATE TABLE account_notice (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  status TEXT NOT NULL,
  reason TEXT,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX account_notice_by_account ON account_notice (account_id);
