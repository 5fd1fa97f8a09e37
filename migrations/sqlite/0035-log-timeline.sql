-- On PostgreSQL: the order of the log survives a change of the server's timeline. Here events are numbered as they are committed.
SELECT 1;
