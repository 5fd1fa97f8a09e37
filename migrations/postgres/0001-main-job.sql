-- The main job on PostgreSQL: the tables of the embedded database with the same names, columns and meanings. Times are
-- Unix milliseconds. JSON is text. Texts that are compared or ordered do so byte by byte (COLLATE "C"), as the embedded
-- database does. Every hot row carries the account id.
--
-- The four tables that grow with every mail (email, message, attempt, event) are partitioned by week, so that what is past
-- its time is dropped whole instead of deleted row by row. Numbers of emails and events begin with the time they were
-- made at, and ids of messages do so too: both are what they are partitioned by. Partitions are made ahead by the
-- program; whatever fits none of them lies in <table>_rest.

-- Time since 2026 in units of 4,096 ms in the upper bits, a running number in the lower 24: below 2^53 until 2095, in the
-- order in which they were drawn within a unit, and unique as long as no 16 million are drawn in one.
CREATE SEQUENCE time_number;
CREATE FUNCTION time_seq() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
  SELECT ((date_part('epoch', clock_timestamp()) * 1000)::bigint - 1767225600000) / 4096 * 16777216
    + (nextval('time_number') & 16777215)
$$;

-- The clock that leases are judged by, in Unix milliseconds.
CREATE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
  SELECT (date_part('epoch', clock_timestamp()) * 1000)::bigint
$$;

CREATE TABLE account (
  id TEXT COLLATE "C" PRIMARY KEY,
  name TEXT NOT NULL,
  plan TEXT NOT NULL CHECK (plan IN ('free', 'paid', 'enterprise')),
  status TEXT NOT NULL CHECK (status IN ('active', 'suspended')),
  approved_email_bytes BIGINT NOT NULL,
  settings TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE api_key (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  mode TEXT COLLATE "C" NOT NULL CHECK (mode IN ('live', 'sandbox')),
  scope TEXT NOT NULL CHECK (scope IN ('send', 'full')),
  name TEXT,
  secret_hash BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT
);
CREATE INDEX api_key_by_account ON api_key (account_id);

CREATE TABLE smtp_credential (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  mode TEXT COLLATE "C" NOT NULL CHECK (mode IN ('live', 'sandbox')),
  username TEXT COLLATE "C" NOT NULL UNIQUE,
  password_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT
);
CREATE INDEX smtp_credential_by_account ON smtp_credential (account_id);

CREATE TABLE operator_user (
  id TEXT COLLATE "C" PRIMARY KEY,
  email TEXT COLLATE "C" NOT NULL UNIQUE,
  account_id TEXT COLLATE "C" REFERENCES account (id),
  is_operator INTEGER NOT NULL,
  password_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE domain (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  domain TEXT COLLATE "C" NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'verified', 'failing')),
  created_at BIGINT NOT NULL,
  checked_at BIGINT,
  UNIQUE (account_id, domain)
);

CREATE TABLE dkim_key (
  domain_id TEXT COLLATE "C" NOT NULL REFERENCES domain (id),
  algorithm TEXT COLLATE "C" NOT NULL CHECK (algorithm IN ('rsa', 'ed25519')),
  selector TEXT NOT NULL,
  public_key TEXT NOT NULL,
  private_key_sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (domain_id, algorithm)
);

CREATE TABLE suppression (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  email TEXT COLLATE "C" NOT NULL,
  reason TEXT NOT NULL CHECK (reason IN ('bounce', 'complaint', 'unsubscribe', 'manual')),
  source_message_id TEXT COLLATE "C",
  expires_at BIGINT,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, mode, email)
);
CREATE INDEX suppression_by_time ON suppression (account_id, mode, created_at, email);

-- One composed email: what several recipients share. Small content stands here, larger content in the blob it names.
CREATE TABLE email (
  seq BIGINT NOT NULL DEFAULT time_seq() PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('http', 'smtp')),
  header_from TEXT COLLATE "C" NOT NULL,
  header_to TEXT NOT NULL,
  envelope_from TEXT NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  header_message_id TEXT COLLATE "C" NOT NULL,
  tags TEXT COLLATE "C" NOT NULL,
  metadata TEXT NOT NULL,
  options TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  content BYTEA,
  blob_key TEXT COLLATE "C",
  created_at BIGINT NOT NULL,
  template_id TEXT COLLATE "C",
  template_version INTEGER,
  retain TEXT NOT NULL CHECK (retain IN ('none', '7d', '30d')),
  content_until BIGINT
) PARTITION BY RANGE (seq);
CREATE INDEX email_by_blob ON email (blob_key) WHERE blob_key IS NOT NULL;
CREATE INDEX email_by_content_until ON email (content_until) WHERE content_until IS NOT NULL;
-- Mail is composed of bytes that are compressed badly or not at all: what does not fit the row is stored as it is.
ALTER TABLE email ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE TABLE email_rest PARTITION OF email DEFAULT WITH (toast_tuple_target = 8160);

-- One recipient's copy.
CREATE TABLE message (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  email_seq BIGINT NOT NULL,
  recipient TEXT COLLATE "C" NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('to', 'cc', 'bcc')),
  status TEXT COLLATE "C" NOT NULL,
  attempts INTEGER NOT NULL,
  work_seq BIGINT,
  send_at BIGINT,
  next_attempt_at BIGINT,
  expires_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, mode, id)
) PARTITION BY RANGE (id);
CREATE INDEX message_by_email ON message (email_seq);
CREATE TABLE message_rest PARTITION OF message DEFAULT;

CREATE TABLE attempt (
  account_id TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  number INTEGER NOT NULL,
  at BIGINT NOT NULL,
  record TEXT NOT NULL,
  PRIMARY KEY (account_id, message_id, number)
) PARTITION BY RANGE (message_id);
CREATE TABLE attempt_rest PARTITION OF attempt DEFAULT;

-- Transactions number their events before they commit, and may commit in another order. Whoever follows the log reads it
-- in the order of the transactions' own ids, and only below the oldest one that is still under way. The ids begin anew
-- when a backup is restored into another cluster: the offset is raised then, so that positions never go back.
CREATE TABLE event_order (id INTEGER PRIMARY KEY CHECK (id = 1), xid_offset BIGINT NOT NULL);
INSERT INTO event_order (id, xid_offset) VALUES (1, 0);
CREATE FUNCTION event_position() RETURNS BIGINT LANGUAGE sql STABLE AS $$
  SELECT xid_offset + pg_current_xact_id()::text::bigint FROM event_order WHERE id = 1
$$;

-- The log of what became of messages. What an event repeats of its message is joined when read.
CREATE TABLE event (
  seq BIGINT NOT NULL DEFAULT time_seq() PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  type TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL,
  detail TEXT NOT NULL,
  position BIGINT NOT NULL DEFAULT event_position()
) PARTITION BY RANGE (seq);
CREATE INDEX event_by_account ON event (account_id, mode, position, seq);
CREATE INDEX event_by_message ON event (message_id, account_id, mode);
CREATE TABLE event_rest PARTITION OF event DEFAULT;

-- The queue. `due` is when somebody may next take the row: its schedule, or the end of the lease of who holds it. Rows come
-- and go quickly, so that vacuum must come often, and updates should find room on their page.
CREATE TABLE work (
  seq BIGINT NOT NULL DEFAULT time_seq() PRIMARY KEY,
  kind TEXT COLLATE "C" NOT NULL,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  ref BIGINT NOT NULL,
  lane TEXT COLLATE "C" NOT NULL,
  due BIGINT NOT NULL,
  leased INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  held INTEGER NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX work_by_due ON work (kind, held, due);
CREATE INDEX work_held_by_lane ON work (kind, lane, due) WHERE held = 1;

CREATE TABLE webhook (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  description TEXT,
  enabled INTEGER NOT NULL,
  secret_sealed BYTEA NOT NULL,
  previous_secret_sealed BYTEA,
  previous_secret_until BIGINT,
  failing_since BIGINT,
  disabled_reason TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE INDEX webhook_by_account ON webhook (account_id, mode);

CREATE TABLE webhook_delivery (
  webhook_id TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  account_id TEXT COLLATE "C" NOT NULL,
  event_seq BIGINT NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  event_type TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
  attempts INTEGER NOT NULL,
  response_status INTEGER,
  response_start TEXT,
  error TEXT,
  latency_ms BIGINT,
  next_attempt_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (webhook_id, id)
);
CREATE INDEX webhook_delivery_settled ON webhook_delivery (updated_at) WHERE status <> 'pending';

CREATE TABLE idempotency (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  endpoint TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  body_hash BYTEA NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  email_seq BIGINT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, mode, endpoint, key)
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

-- Captured mail of the sandbox's virtual inbox.
CREATE TABLE sandbox_item (
  account_id TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  email_seq BIGINT NOT NULL,
  recipient TEXT COLLATE "C" NOT NULL,
  outcome TEXT,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, message_id)
);
CREATE INDEX sandbox_item_by_time ON sandbox_item (created_at);

-- Facts about this database as a whole, such as the check value of the secret key and that the first run is done.
CREATE TABLE meta (
  key TEXT COLLATE "C" PRIMARY KEY,
  value TEXT NOT NULL
);
