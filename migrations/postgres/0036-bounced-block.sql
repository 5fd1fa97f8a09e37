-- Bounces of kind block, which were counted among those of kind hard before.
ALTER TABLE statistics ADD COLUMN bounced_block BIGINT NOT NULL DEFAULT 0;
