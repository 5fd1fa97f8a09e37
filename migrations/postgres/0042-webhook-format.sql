-- Webhooks whose requests have the payload of another service: its name, and the JSON array of its event names that are wanted.
ALTER TABLE webhook ADD COLUMN format TEXT;
ALTER TABLE webhook ADD COLUMN format_events TEXT;
