-- Mail that came in, for each of its recipients; content as it came, small content here and larger content in the blob it names, which
-- those of one mail share. purpose (JSON): what the recipient is for; client (JSON): who brought it. status: waiting for its row of
-- work; kept, for who may read it; aside, since our own code failed over it. Times in Unix ms.

CREATE TABLE inbound_mail (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  purpose TEXT NOT NULL,
  envelope_from TEXT NOT NULL,
  recipient TEXT NOT NULL,
  client TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  content BLOB,
  blob_key TEXT,
  received_at INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('waiting', 'kept', 'aside'))
) STRICT, WITHOUT ROWID;
CREATE INDEX inbound_mail_by_blob ON inbound_mail (blob_key) WHERE blob_key IS NOT NULL;
CREATE INDEX inbound_mail_by_time ON inbound_mail (received_at) WHERE status <> 'waiting';
