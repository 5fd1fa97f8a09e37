-- Webhooks that get the events of a recipient one after the other. turn: the recipient's address in lower case, of rows for such a webhook;
-- held = 2: the row waits until the earlier rows of its turn are done.
ALTER TABLE webhook ADD COLUMN ordered BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_subscription ADD COLUMN ordered BIGINT NOT NULL DEFAULT 0;
ALTER TABLE work ADD COLUMN turn TEXT COLLATE "C";
CREATE INDEX work_by_turn ON work (subject, turn, held, ref) WHERE turn IS NOT NULL;
