-- What the reputation guard has found of an account's live mail: warned, or resting until somebody decides. guard (JSON): why, and from when on
-- mail is counted. guard_thresholds (JSON): what the operator has set. guard_notice: what the account has still to learn by mail.
ALTER TABLE account ADD COLUMN guard_status TEXT NOT NULL DEFAULT 'good' CHECK (guard_status IN ('good', 'warned', 'resting'));
ALTER TABLE account ADD COLUMN guard_since INTEGER;
ALTER TABLE account ADD COLUMN guard TEXT NOT NULL DEFAULT '{}';
ALTER TABLE account ADD COLUMN guard_thresholds TEXT NOT NULL DEFAULT '{}';
ALTER TABLE account ADD COLUMN guard_notice TEXT CHECK (guard_notice IN ('warned', 'resting'));
CREATE INDEX account_guarded ON account (id) WHERE guard_status <> 'good';
CREATE INDEX account_with_guard_notice ON account (id) WHERE guard_notice IS NOT NULL;
