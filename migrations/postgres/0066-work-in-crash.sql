-- Work that was held at a crash, which is searched for with each claim: few rows, so that the search does not read all due work.
CREATE INDEX work_in_crash ON work (kind, held, due) WHERE crashes > 0;
