-- The W3C trace context in which an email was accepted: its webhooks and delivery attempts continue the trace.
ALTER TABLE email ADD COLUMN traceparent TEXT COLLATE "C";
