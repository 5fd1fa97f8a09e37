-- Messages of accounts with a quota in the current UTC day and month, by mode. Starts in Unix ms. level: 80 or 100 once this percentage
-- of the quota is used; notified: the level that the account was notified of.
CREATE TABLE message_quota (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  day_start BIGINT NOT NULL,
  day_used BIGINT NOT NULL,
  day_level BIGINT NOT NULL,
  day_notified BIGINT NOT NULL,
  month_start BIGINT NOT NULL,
  month_used BIGINT NOT NULL,
  month_level BIGINT NOT NULL,
  month_notified BIGINT NOT NULL,
  PRIMARY KEY (account_id, mode)
);
CREATE INDEX message_quota_to_notify ON message_quota (account_id) WHERE day_level > day_notified OR month_level > month_notified;
