-- Templates made with a sandbox key exist in the sandbox only, where they stand before a live one of the same name.
ALTER TABLE template ADD COLUMN mode TEXT NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'sandbox'));
ALTER TABLE template DROP CONSTRAINT template_account_id_name_key;
ALTER TABLE template ADD CONSTRAINT template_account_id_name_mode_key UNIQUE (account_id, name, mode);
