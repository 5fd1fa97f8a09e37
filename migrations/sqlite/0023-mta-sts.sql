-- Policies of recipients' domains on TLS (MTA-STS), kept for as long as each says.
CREATE TABLE mta_sts_policy (
  domain TEXT NOT NULL PRIMARY KEY,
  policy_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  mx TEXT NOT NULL,
  max_age INTEGER NOT NULL,
  checked_at INTEGER NOT NULL,
  used_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX mta_sts_policy_by_check ON mta_sts_policy (checked_at);
CREATE INDEX mta_sts_policy_by_expiry ON mta_sts_policy (expires_at);
