-- People: who signs in, in which accounts they have which role, and by what they prove who they are. Secrets are kept as hashes
-- (argon2id of passwords, SHA-256 of session and link tokens, keyed hashes of recovery codes) or sealed (TOTP).
CREATE TABLE app_user (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL UNIQUE,
  email_verified INTEGER NOT NULL,
  is_operator INTEGER NOT NULL,
  password_hash TEXT,
  totp_secret BLOB,
  totp_confirmed_at INTEGER,
  totp_last_step INTEGER,
  created_at INTEGER NOT NULL,
  last_sign_in_at INTEGER
) WITHOUT ROWID;

CREATE TABLE membership (
  account_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('viewer', 'member', 'owner')),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, user_id)
) WITHOUT ROWID;
CREATE INDEX membership_by_user ON membership (user_id);

CREATE TABLE user_session (
  id TEXT PRIMARY KEY,
  token_hash BLOB NOT NULL UNIQUE,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  address TEXT NOT NULL,
  user_agent TEXT
) WITHOUT ROWID;
CREATE INDEX user_session_by_user ON user_session (user_id);
CREATE INDEX user_session_by_last_seen ON user_session (last_seen_at);

-- Links that set a password (invitation, reset, first-run), and challenges of passkeys that were answered.
CREATE TABLE user_token (
  token_hash BLOB PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  purpose TEXT NOT NULL,
  -- Whether it went to the address by mail, so that using it proves the address.
  by_mail INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX user_token_by_user ON user_token (user_id);
CREATE INDEX user_token_by_expiry ON user_token (expires_at);

CREATE TABLE passkey (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  public_key BLOB NOT NULL,
  counter INTEGER NOT NULL,
  transports TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER
) WITHOUT ROWID;
CREATE INDEX passkey_by_user ON passkey (user_id);

CREATE TABLE recovery_code (
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  code_hash BLOB NOT NULL,
  PRIMARY KEY (user_id, code_hash)
) WITHOUT ROWID;

-- How far the attempts of an address or at a user are ahead of their rate: a sign-in that fails takes some of the time in advance.
CREATE TABLE sign_in_limit (
  key TEXT PRIMARY KEY,
  taken_until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sign_in_limit_by_time ON sign_in_limit (taken_until);

-- Addresses that a user has signed in from, which guesses from elsewhere do not lock out.
CREATE TABLE known_address (
  user_id TEXT NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  address TEXT NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, address)
) WITHOUT ROWID;
CREATE INDEX known_address_by_time ON known_address (seen_at);

-- Their addresses were given by an operator.
INSERT INTO app_user (id, email, email_verified, is_operator, password_hash, created_at)
  SELECT id, email, 1, is_operator, password_hash, created_at FROM operator_user;
INSERT INTO membership (account_id, user_id, role, created_at)
  SELECT account_id, id, 'owner', created_at FROM operator_user WHERE account_id IS NOT NULL;
DROP TABLE operator_user;
