-- Sending protection of an account: good, warned, or held until its mail is released. protection (JSON): why, and from when on mail is
-- counted. protection_thresholds (JSON): set by an operator. protection_notice: what the account has not been notified of yet.
DROP INDEX account_guarded;
DROP INDEX account_with_guard_notice;
ALTER TABLE account ADD COLUMN protection_status TEXT NOT NULL DEFAULT 'good' CHECK (protection_status IN ('good', 'warned', 'held'));
ALTER TABLE account ADD COLUMN protection_notice TEXT CHECK (protection_notice IN ('warned', 'held'));
UPDATE account SET
  protection_status = replace(guard_status, 'resting', 'held'),
  protection_notice = replace(guard_notice, 'resting', 'held')
WHERE guard_status <> 'good' OR guard_notice IS NOT NULL;
ALTER TABLE account DROP COLUMN guard_status;
ALTER TABLE account DROP COLUMN guard_notice;
ALTER TABLE account RENAME COLUMN guard_since TO protection_since;
ALTER TABLE account RENAME COLUMN guard TO protection;
ALTER TABLE account RENAME COLUMN guard_thresholds TO protection_thresholds;
CREATE INDEX account_protected ON account (id) WHERE protection_status <> 'good';
CREATE INDEX account_with_protection_notice ON account (id) WHERE protection_notice IS NOT NULL;

DROP TRIGGER audit_update;
UPDATE audit SET
  action = replace(action, 'account.guard', 'account.sending-protection'),
  before_change = replace(replace(replace(replace(before_change, '"guardStatus":"resting"', '"protectionStatus":"held"'),
    '"guardStatus":', '"protectionStatus":'), '"guard":', '"protection":'), '"guardThresholds":', '"protectionThresholds":'),
  after_change = replace(replace(replace(replace(after_change, '"guardStatus":"resting"', '"protectionStatus":"held"'),
    '"guardStatus":', '"protectionStatus":'), '"guard":', '"protection":'), '"guardThresholds":', '"protectionThresholds":')
WHERE resource = 'account' AND action IN ('account.guard', 'account.resume-sending', 'account.set');
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'the audit log is append-only');
END;
