-- Large attachments: manifests that were registered, the uploaded files, which emails are made of them, and requests for
-- a larger email size.

-- A registered manifest. `version` grows with every change of its files, so that a send takes what it has looked at or
-- nothing. `used_at` is set in the transaction that accepts the email.
CREATE TABLE attachment_submission (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  idempotency_key TEXT COLLATE "C",
  manifest_hash BYTEA NOT NULL,
  expires_at BIGINT NOT NULL,
  version BIGINT NOT NULL,
  used_at BIGINT,
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX attachment_submission_by_key ON attachment_submission (account_id, mode, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX attachment_submission_open ON attachment_submission (account_id, mode) WHERE used_at IS NULL;
CREATE INDEX attachment_submission_unused ON attachment_submission (expires_at) WHERE used_at IS NULL;

-- One file of a manifest, in its place there. `blob_key` names the bytes. It is set by the upload, once size and digest are
-- known to be right; where the bytes go straight to the blob storage (`direct`) it is set beforehand and proves nothing.
CREATE TABLE attachment_file (
  submission_id TEXT COLLATE "C" NOT NULL REFERENCES attachment_submission (id),
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  sha256 BYTEA NOT NULL,
  direct INTEGER NOT NULL,
  blob_key TEXT COLLATE "C",
  PRIMARY KEY (submission_id, number)
);
CREATE INDEX attachment_file_by_blob ON attachment_file (blob_key) WHERE blob_key IS NOT NULL;

-- Emails whose files are those of a submission: the one it was sent with, and what is sent again of it. The files stay
-- as long as the content of one of them does.
CREATE TABLE attachment_use (
  email_seq BIGINT NOT NULL,
  submission_id TEXT COLLATE "C" NOT NULL REFERENCES attachment_submission (id),
  PRIMARY KEY (email_seq, submission_id)
);
CREATE INDEX attachment_use_by_submission ON attachment_use (submission_id);

-- Requests for emails above the standard size, which the operator decides.
CREATE TABLE approval (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  requested_email_bytes BIGINT NOT NULL,
  reason TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected')),
  decision_reason TEXT,
  created_at BIGINT NOT NULL,
  decided_at BIGINT
);
CREATE INDEX approval_by_account ON approval (account_id);
