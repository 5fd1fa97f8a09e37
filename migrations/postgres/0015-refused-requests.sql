-- What was refused to callers who are known, over HTTP and over SMTP, by account, mode and time: never a body or a secret.
-- `number` orders what was refused within a millisecond; `call` is the route or the SMTP verb.
CREATE TABLE refused_request (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  number BIGINT NOT NULL,
  request_id TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL CHECK (source IN ('api', 'smtp')),
  call TEXT,
  status INTEGER NOT NULL,
  code TEXT COLLATE "C" NOT NULL,
  message TEXT NOT NULL,
  details TEXT NOT NULL,
  credential_id TEXT,
  address TEXT NOT NULL,
  PRIMARY KEY (account_id, mode, at, number, request_id)
);
