-- Version 2 adds records. docs/internals/sqlite.md says what each column means.

-- One row per record. A row whose time has come counts as absent, whether or not it was deleted.
CREATE TABLE records (
  record          INTEGER PRIMARY KEY,
  owner           BLOB    NOT NULL,  -- names are blobs because they may contain U+0000
  task            BLOB    NOT NULL,
  created_at_ms   INTEGER NOT NULL,  -- the place in its owner's list; never changes
  expires_at_ms   INTEGER,           -- wall clock: this decides; null: never
  version         INTEGER NOT NULL,
  incarnation     TEXT    NOT NULL,
  origin          BLOB    NOT NULL,
  fence           INTEGER,           -- the highest seen, of the lock below; all three null: guarded by none
  fence_authority BLOB,
  fence_key       BLOB,
  data            BLOB    NOT NULL   -- last: whoever asks for the others alone does not read it
);

CREATE UNIQUE INDEX records_by_name ON records (owner, task);
CREATE INDEX records_in_order ON records (owner, created_at_ms, task);
CREATE INDEX records_by_owners_expiry ON records (owner, expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX records_by_expiry ON records (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- The number of rows of each owner, so that no query counts them. Triggers keep it right even when the
-- table is changed by hand.
CREATE TABLE owners (
  owner   BLOB    PRIMARY KEY,
  records INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER record_added AFTER INSERT ON records BEGIN
  INSERT INTO owners (owner, records) VALUES (new.owner, 1)
    ON CONFLICT (owner) DO UPDATE SET records = records + 1;
END;

CREATE TRIGGER record_removed AFTER DELETE ON records BEGIN
  UPDATE owners SET records = records - 1 WHERE owner = old.owner;
  DELETE FROM owners WHERE owner = old.owner AND records = 0;
END;
