-- Links that show a message to anyone who has them. A link works while its row exists. The token of the link is not stored.
-- created_by_kind, created_by_id, created_by_name: the actor, as in the audit log.
CREATE TABLE message_share (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  hide_subject BIGINT NOT NULL,
  hide_content BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  created_by_kind TEXT NOT NULL,
  created_by_id TEXT,
  created_by_name TEXT
);
CREATE INDEX message_share_by_account ON message_share (account_id, mode, id);
CREATE INDEX message_share_by_message ON message_share (message_id, id);
CREATE INDEX message_share_by_expiry ON message_share (expires_at);
