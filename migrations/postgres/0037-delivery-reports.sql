-- Delivery reports that submitters request (RFC 3461). Of an email, JSON of envid and ret; of a message, JSON of the outcomes that its
-- sender is notified of; NULL where nothing was requested. Of a credential, `failures` where bounces are reported unasked; NULL is off.
ALTER TABLE email ADD COLUMN dsn TEXT;
ALTER TABLE message ADD COLUMN dsn TEXT;
ALTER TABLE smtp_credential ADD COLUMN delivery_reports TEXT;
