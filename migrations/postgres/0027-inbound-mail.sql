-- Mail that came in, for each of its recipients; content as it came, small content here and larger content in the blob it names, which
-- those of one mail share. purpose (JSON): what the recipient is for; client (JSON): who brought it. status: waiting for its row of
-- work; kept, for who may read it; aside, since our own code failed over it. Times in Unix ms.

CREATE TABLE inbound_mail (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  purpose TEXT NOT NULL,
  envelope_from TEXT NOT NULL,
  recipient TEXT NOT NULL,
  client TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  content BYTEA,
  blob_key TEXT COLLATE "C",
  received_at BIGINT NOT NULL,
  status TEXT COLLATE "C" NOT NULL CHECK (status IN ('waiting', 'kept', 'aside'))
);
CREATE INDEX inbound_mail_by_blob ON inbound_mail (blob_key) WHERE blob_key IS NOT NULL;
CREATE INDEX inbound_mail_by_time ON inbound_mail (received_at) WHERE status <> 'waiting';
