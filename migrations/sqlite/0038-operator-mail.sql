-- Mail to postmaster@ and abuse@ that is kept for operators: summary (JSON) is what their list shows of it; null for all other mail.
ALTER TABLE inbound_mail ADD COLUMN summary TEXT;
CREATE INDEX inbound_mail_for_operators ON inbound_mail (id) WHERE summary IS NOT NULL;
