-- Live changes that an agent asked for over MCP, and the decision on each. `call` is the API call as JSON, removed once it is decided;
-- `digest` is the SHA-256 of the call, in hexadecimal.
CREATE TABLE agent_request (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  key_id TEXT COLLATE "C" NOT NULL,
  client TEXT NOT NULL,
  tool TEXT NOT NULL,
  call TEXT NOT NULL,
  digest TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided_at BIGINT,
  decided_by TEXT,
  result TEXT
);
CREATE INDEX agent_request_by_account ON agent_request (account_id, mode, id);
CREATE INDEX agent_request_by_age ON agent_request (created_at);
