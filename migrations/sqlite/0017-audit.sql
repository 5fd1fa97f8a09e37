-- One row for each change that somebody made: append-only, kept 400 days (34,560,000,000 ms). before_change and after_change are JSON
-- without secrets.
CREATE TABLE audit (
  id TEXT PRIMARY KEY,
  account_id TEXT,
  mode TEXT,
  at BIGINT NOT NULL,
  actor_kind TEXT NOT NULL CHECK (actor_kind IN ('user', 'key', 'credential', 'command-line', 'system')),
  actor_id TEXT,
  actor_name TEXT,
  address TEXT,
  request_id TEXT,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  resource_id TEXT,
  before_change TEXT,
  after_change TEXT
);
CREATE INDEX audit_by_account ON audit (account_id, id);
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit WHEN OLD.at > unixepoch() * 1000 - 34560000000 BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- INSERT OR REPLACE deletes without its trigger.
CREATE TRIGGER audit_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id) BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
