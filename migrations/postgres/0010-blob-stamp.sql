-- What the file system said of an uploaded file when its bytes were known to be right (inode, size and times). A send reads the
-- bytes again where it says otherwise. NULL where nothing is known: files of earlier versions, and stores that say nothing.
ALTER TABLE attachment_file ADD COLUMN blob_stamp TEXT;
