-- People: who signs in, in which accounts they have which role, and by what they prove who they are. Secrets are kept as hashes
-- (argon2id of passwords, SHA-256 of session and link tokens, keyed hashes of recovery codes) or sealed (TOTP).
CREATE TABLE app_user (
  id TEXT COLLATE "C" PRIMARY KEY,
  email TEXT COLLATE "C" NOT NULL UNIQUE,
  email_verified INTEGER NOT NULL,
  is_operator INTEGER NOT NULL,
  password_hash TEXT COLLATE "C",
  totp_secret BYTEA,
  totp_confirmed_at BIGINT,
  totp_last_step BIGINT,
  created_at BIGINT NOT NULL,
  last_sign_in_at BIGINT
);

CREATE TABLE membership (
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  user_id TEXT COLLATE "C" NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  role TEXT COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'member', 'owner')),
  created_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, user_id)
);
CREATE INDEX membership_by_user ON membership (user_id);

CREATE TABLE user_session (
  id TEXT COLLATE "C" PRIMARY KEY,
  token_hash BYTEA NOT NULL UNIQUE,
  user_id TEXT COLLATE "C" NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  created_at BIGINT NOT NULL,
  last_seen_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  address TEXT COLLATE "C" NOT NULL,
  user_agent TEXT COLLATE "C"
);
CREATE INDEX user_session_by_user ON user_session (user_id);
CREATE INDEX user_session_by_last_seen ON user_session (last_seen_at);

-- Links that set a password (invitation, reset, first-run), and challenges of passkeys that were answered.
CREATE TABLE user_token (
  token_hash BYTEA PRIMARY KEY,
  user_id TEXT COLLATE "C" NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  purpose TEXT COLLATE "C" NOT NULL,
  -- Whether it went to the address by mail, so that using it proves the address.
  by_mail INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX user_token_by_user ON user_token (user_id);
CREATE INDEX user_token_by_expiry ON user_token (expires_at);

CREATE TABLE passkey (
  id TEXT COLLATE "C" PRIMARY KEY,
  user_id TEXT COLLATE "C" NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  name TEXT COLLATE "C" NOT NULL,
  public_key BYTEA NOT NULL,
  counter BIGINT NOT NULL,
  transports TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT
);
CREATE INDEX passkey_by_user ON passkey (user_id);

CREATE TABLE recovery_code (
  user_id TEXT COLLATE "C" NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  code_hash BYTEA NOT NULL,
  PRIMARY KEY (user_id, code_hash)
);

-- How far the attempts of an address or at a user are ahead of their rate: a sign-in that fails takes some of the time in advance.
CREATE TABLE sign_in_limit (
  key TEXT COLLATE "C" PRIMARY KEY,
  taken_until BIGINT NOT NULL
);
CREATE INDEX sign_in_limit_by_time ON sign_in_limit (taken_until);

-- Addresses that a user has signed in from, which guesses from elsewhere do not lock out.
CREATE TABLE known_address (
  user_id TEXT COLLATE "C" NOT NULL REFERENCES app_user (id) ON DELETE CASCADE,
  address TEXT COLLATE "C" NOT NULL,
  seen_at BIGINT NOT NULL,
  PRIMARY KEY (user_id, address)
);
CREATE INDEX known_address_by_time ON known_address (seen_at);

-- Their addresses were given by an operator.
INSERT INTO app_user (id, email, email_verified, is_operator, password_hash, created_at)
  SELECT id, email, 1, is_operator, password_hash, created_at FROM operator_user;
INSERT INTO membership (account_id, user_id, role, created_at)
  SELECT account_id, id, 'owner', created_at FROM operator_user WHERE account_id IS NOT NULL;
DROP TABLE operator_user;
