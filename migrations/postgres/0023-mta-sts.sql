-- Policies of recipients' domains on TLS (MTA-STS), kept for as long as each says.
CREATE TABLE mta_sts_policy (
  domain TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  policy_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  mx TEXT COLLATE "C" NOT NULL,
  max_age BIGINT NOT NULL,
  checked_at BIGINT NOT NULL,
  used_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX mta_sts_policy_by_check ON mta_sts_policy (checked_at);
CREATE INDEX mta_sts_policy_by_expiry ON mta_sts_policy (expires_at);
