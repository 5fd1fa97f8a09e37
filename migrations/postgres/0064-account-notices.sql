-- Notices to the users of an account that an operator suspended or reactivated, until they are sent. status: the status since then. reason:
-- the operator's text about a suspension.
CREATE TABLE account_notice (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  status TEXT COLLATE "C" NOT NULL,
  reason TEXT,
  at BIGINT NOT NULL
);
CREATE INDEX account_notice_by_account ON account_notice (account_id);
