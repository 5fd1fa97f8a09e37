-- The main job: accounts and keys, domains, messages, events, the queue, webhooks.
-- Times are Unix milliseconds. JSON is text. Every hot row carries the account id. Rows that are only ever appended
-- have an integer key in order of commit; rows that are looked up by the API are clustered by account, mode and id,
-- so that the newest page of one account is one range of one tree and needs no second index.

CREATE TABLE account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  plan TEXT NOT NULL CHECK (plan IN ('free', 'paid', 'enterprise')),
  status TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  approved_email_bytes INTEGER NOT NULL,
  settings TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  mode TEXT NOT NULL CHECK (mode IN ('live', 'sandbox')),
  scope TEXT NOT NULL CHECK (scope IN ('send', 'full')),
  name TEXT,
  secret_hash BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX api_key_by_account ON api_key (account_id);

CREATE TABLE smtp_credential (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  mode TEXT NOT NULL CHECK (mode IN ('live', 'sandbox')),
  username TEXT NOT NULL UNIQUE,
  password_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX smtp_credential_by_account ON smtp_credential (account_id);

CREATE TABLE operator_user (
  id TEXT PRIMARY KEY,
  email TEXT NOT NULL UNIQUE,
  account_id TEXT REFERENCES account (id),
  is_operator INTEGER NOT NULL,
  password_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE domain (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  domain TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'verified', 'failing')),
  created_at INTEGER NOT NULL,
  checked_at INTEGER,
  UNIQUE (account_id, domain)
) WITHOUT ROWID;

CREATE TABLE dkim_key (
  domain_id TEXT NOT NULL REFERENCES domain (id),
  algorithm TEXT NOT NULL CHECK (algorithm IN ('rsa', 'ed25519')),
  selector TEXT NOT NULL,
  public_key TEXT NOT NULL,
  private_key_sealed BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (domain_id, algorithm)
) WITHOUT ROWID;

CREATE TABLE suppression (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  email TEXT NOT NULL,
  reason TEXT NOT NULL CHECK (reason IN ('bounce', 'complaint', 'unsubscribe', 'manual')),
  source_message_id TEXT,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, mode, email)
) WITHOUT ROWID;

-- One composed email: what several recipients share. Small content stands here, larger content in the blob it names.
CREATE TABLE email (
  seq INTEGER PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('http', 'smtp')),
  header_from TEXT NOT NULL,
  header_to TEXT NOT NULL,
  envelope_from TEXT NOT NULL,
  subject TEXT NOT NULL,
  header_message_id TEXT NOT NULL,
  tags TEXT NOT NULL,
  metadata TEXT NOT NULL,
  options TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  content BLOB,
  blob_key TEXT,
  created_at INTEGER NOT NULL,
  template_id TEXT,
  template_version INTEGER,
  retain TEXT NOT NULL CHECK (retain IN ('none', '7d', '30d')),
  content_until INTEGER
);
CREATE INDEX email_by_blob ON email (blob_key) WHERE blob_key IS NOT NULL;
CREATE INDEX email_by_content_until ON email (content_until) WHERE content_until IS NOT NULL;

-- One recipient's copy.
CREATE TABLE message (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  id TEXT NOT NULL,
  email_seq INTEGER NOT NULL,
  recipient TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('to', 'cc', 'bcc')),
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  work_seq INTEGER,
  send_at INTEGER,
  next_attempt_at INTEGER,
  expires_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, mode, id)
) WITHOUT ROWID;
CREATE INDEX message_by_email ON message (email_seq);

CREATE TABLE attempt (
  account_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  record TEXT NOT NULL,
  PRIMARY KEY (account_id, message_id, number)
) WITHOUT ROWID;

-- The log of what became of messages, in order of commit. What an event repeats of its message is joined when read.
CREATE TABLE event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  message_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  detail TEXT NOT NULL
);
CREATE INDEX event_by_account ON event (account_id, mode, seq);
CREATE INDEX event_by_message ON event (message_id, account_id, mode);

-- The queue. `due` is when somebody may next take the row: its schedule, or the end of the lease of who holds it.
CREATE TABLE work (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  subject TEXT NOT NULL,
  ref INTEGER NOT NULL,
  lane TEXT NOT NULL,
  due INTEGER NOT NULL,
  leased INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  held INTEGER NOT NULL
);
CREATE INDEX work_by_due ON work (kind, held, due);
CREATE INDEX work_held_by_lane ON work (kind, lane, due) WHERE held = 1;

CREATE TABLE webhook (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  description TEXT,
  enabled INTEGER NOT NULL,
  secret_sealed BLOB NOT NULL,
  previous_secret_sealed BLOB,
  previous_secret_until INTEGER,
  failing_since INTEGER,
  disabled_reason TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_by_account ON webhook (account_id, mode);

CREATE TABLE webhook_delivery (
  webhook_id TEXT NOT NULL,
  id TEXT NOT NULL,
  account_id TEXT NOT NULL,
  event_seq INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
  attempts INTEGER NOT NULL,
  response_status INTEGER,
  response_start TEXT,
  error TEXT,
  latency_ms INTEGER,
  next_attempt_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (webhook_id, id)
) WITHOUT ROWID;

CREATE TABLE idempotency (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  key TEXT NOT NULL,
  body_hash BLOB NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  email_seq INTEGER,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, mode, endpoint, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

-- Captured mail of the sandbox's virtual inbox.
CREATE TABLE sandbox_item (
  account_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  email_seq INTEGER NOT NULL,
  recipient TEXT NOT NULL,
  outcome TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, message_id)
) WITHOUT ROWID;

-- Facts about this database as a whole, such as the check value of the secret key and that the first run is done.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
