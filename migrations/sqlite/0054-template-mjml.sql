-- The MJML source that the html of a version was generated from; null if the html was written by hand.
ALTER TABLE template_version ADD COLUMN mjml TEXT;
