-- Accounts that an operator looks at, read-only: for one session, and for a while.
CREATE TABLE account_look (
  session_id TEXT NOT NULL REFERENCES user_session (id) ON DELETE CASCADE,
  account_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (session_id, account_id)
) WITHOUT ROWID;
CREATE INDEX account_look_by_account ON account_look (account_id);
CREATE INDEX account_look_by_expiry ON account_look (expires_at);
