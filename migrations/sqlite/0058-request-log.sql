-- Requests of callers who are known, over HTTP and over SMTP, by account, mode, and time of arrival: never a body or a secret. A request
-- failed if its status is 400 or above; of requests over SMTP only failed ones are recorded. `number` orders requests of one millisecond.
-- call: method and route, or the SMTP verb; path: with the ids in the place of their parameters, null if the route has none. code, message,
-- details (JSON): the error of a failed request.
CREATE TABLE request_log (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  at INTEGER NOT NULL,
  number INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('api', 'smtp')),
  call TEXT,
  path TEXT,
  status INTEGER NOT NULL,
  code TEXT,
  message TEXT,
  details TEXT,
  duration_ms INTEGER,
  message_id TEXT,
  credential_id TEXT,
  address TEXT NOT NULL,
  user_agent TEXT,
  PRIMARY KEY (account_id, mode, at, number, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_log_failed ON request_log (account_id, mode, at, number, request_id) WHERE status >= 400;
INSERT INTO request_log (account_id, mode, at, number, request_id, source, call, status, code, message, details, credential_id, address)
  SELECT account_id, mode, at, number, request_id, source, call, status, code, message, details, credential_id, address
  FROM refused_request;
DROP TABLE refused_request;
-- How many successful requests of an hour (its start, Unix ms) were recorded, and how many were omitted.
CREATE TABLE request_log_hour (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  hour INTEGER NOT NULL,
  recorded INTEGER NOT NULL,
  omitted INTEGER NOT NULL,
  PRIMARY KEY (account_id, mode, hour)
) STRICT, WITHOUT ROWID;
