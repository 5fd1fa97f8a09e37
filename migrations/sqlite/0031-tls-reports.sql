-- TLS sessions with recipients' servers, counted by day, and the reports about them (RFC 8460). Days begin at 0:00 UTC; times in Unix ms.
-- id: digest of all that distinguishes a counter. policy (JSON): as the report names it. failure: null where a session was good.
CREATE TABLE tls_session_count (
  id TEXT PRIMARY KEY,
  day INTEGER NOT NULL,
  domain TEXT NOT NULL,
  policy TEXT NOT NULL,
  failure TEXT,
  local_address TEXT,
  host TEXT,
  address TEXT,
  reason TEXT,
  sessions INTEGER NOT NULL
) STRICT;
CREATE INDEX tls_session_count_by_day ON tls_session_count (day, domain);

-- next_at: when it is tried next, or its lease runs out; null once it is done, in the way that outcome says. served (JSON): where it was taken.
CREATE TABLE tls_report (
  day INTEGER NOT NULL,
  domain TEXT NOT NULL,
  next_at INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  first_at INTEGER,
  served TEXT NOT NULL DEFAULT '[]',
  outcome TEXT,
  PRIMARY KEY (day, domain)
) STRICT;
CREATE INDEX tls_report_due ON tls_report (next_at) WHERE next_at IS NOT NULL;
