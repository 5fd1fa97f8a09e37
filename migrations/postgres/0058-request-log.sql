-- Requests of callers who are known, over HTTP and over SMTP, by account, mode, and time of arrival: never a body or a secret. A request
-- failed if its status is 400 or above; of requests over SMTP only failed ones are recorded. `number` orders requests of one millisecond.
-- call: method and route, or the SMTP verb; path: with the ids in the place of their parameters, null if the route has none. code, message,
-- details (JSON): the error of a failed request.
ALTER TABLE refused_request RENAME TO request_log;
ALTER TABLE request_log RENAME CONSTRAINT refused_request_pkey TO request_log_pkey;
ALTER TABLE request_log
  ALTER COLUMN code DROP NOT NULL,
  ALTER COLUMN message DROP NOT NULL,
  ALTER COLUMN details DROP NOT NULL,
  ADD COLUMN path TEXT,
  ADD COLUMN duration_ms BIGINT,
  ADD COLUMN message_id TEXT COLLATE "C",
  ADD COLUMN user_agent TEXT;
CREATE INDEX request_log_failed ON request_log (account_id, mode, at, number, request_id) WHERE status >= 400;
-- How many successful requests of an hour (its start, Unix ms) were recorded, and how many were omitted.
CREATE TABLE request_log_hour (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  hour BIGINT NOT NULL,
  recorded BIGINT NOT NULL,
  omitted BIGINT NOT NULL,
  PRIMARY KEY (account_id, mode, hour)
);
-- Nodes of the version before record and list failed requests by the earlier name until they are upgraded.
CREATE VIEW refused_request AS
  SELECT account_id, mode, at, number, request_id, source, call, status, code, message, details, credential_id, address
  FROM request_log WHERE status >= 400;
