-- Mail by its Message-ID, which complaints and replies name. Ours begin with the time, so that new ones lie at the end of the index; of
-- foreign ones, which may be of any length, the first characters are enough.
CREATE INDEX email_by_message_id ON email (substr(header_message_id, 1, 200));
