-- Notices by email to the users of an account. account.time_zone: IANA name of the zone of their times. membership.notices: which kinds the
-- user chose, JSON { kind: boolean }; the role decides on all other kinds. account_logo: the image at the top of the notices.
ALTER TABLE account ADD COLUMN time_zone TEXT NOT NULL DEFAULT 'UTC';
ALTER TABLE membership ADD COLUMN notices TEXT NOT NULL DEFAULT '{}';
CREATE TABLE account_logo (
  account_id TEXT COLLATE "C" PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
  content_type TEXT NOT NULL,
  content BYTEA NOT NULL,
  updated_at BIGINT NOT NULL
);
