-- Caps that an operator has set for an account, by name, as JSON; the others are the standard ones (src/caps/caps.ts).
ALTER TABLE account ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
