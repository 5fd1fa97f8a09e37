-- Webhooks that receive several events per request. max_batch: the most events of a request; 1: each event is a request of its own.
ALTER TABLE webhook ADD COLUMN max_batch BIGINT NOT NULL DEFAULT 1;
