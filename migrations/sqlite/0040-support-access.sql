-- The read-only access of operators to accounts is support access, in the table and in the audit log.
ALTER TABLE account_look RENAME TO support_access;
DROP INDEX account_look_by_account;
DROP INDEX account_look_by_expiry;
CREATE INDEX support_access_by_account ON support_access (account_id);
CREATE INDEX support_access_by_expiry ON support_access (expires_at);

DROP TRIGGER audit_update;
UPDATE audit SET action = 'account.start-support-access' WHERE action = 'account.look';
UPDATE audit SET action = 'account.end-support-access' WHERE action = 'account.end-look';
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
