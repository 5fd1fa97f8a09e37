-- What was refused to callers who are known, over HTTP and over SMTP, by account, mode and time: never a body or a secret.
-- `number` orders what was refused within a millisecond; `call` is the route or the SMTP verb.
CREATE TABLE refused_request (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  at INTEGER NOT NULL,
  number INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('api', 'smtp')),
  call TEXT,
  status INTEGER NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  details TEXT NOT NULL,
  credential_id TEXT,
  address TEXT NOT NULL,
  PRIMARY KEY (account_id, mode, at, number, request_id)
) WITHOUT ROWID;
