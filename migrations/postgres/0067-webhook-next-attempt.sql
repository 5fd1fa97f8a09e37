-- The next attempt of an endpoint: the soonest of its deliveries that have failed and are pending. Deliveries that succeed at once have no entry.
CREATE INDEX webhook_delivery_pending ON webhook_delivery (webhook_id, next_attempt_at) WHERE status = 'pending';
