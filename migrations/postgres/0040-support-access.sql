-- The read-only access of operators to accounts is support access, in the table and in the audit log.
ALTER TABLE account_look RENAME TO support_access;
ALTER INDEX account_look_pkey RENAME TO support_access_pkey;
ALTER INDEX account_look_by_account RENAME TO support_access_by_account;
ALTER INDEX account_look_by_expiry RENAME TO support_access_by_expiry;

ALTER TABLE audit DISABLE TRIGGER audit_append_only;
UPDATE audit SET action = 'account.start-support-access' WHERE action = 'account.look';
UPDATE audit SET action = 'account.end-support-access' WHERE action = 'account.end-look';
ALTER TABLE audit ENABLE TRIGGER audit_append_only;
