-- Version 1. docs/internals/sqlite.md says what each column means and which promises rest on it.

-- One row. It is on a page of its own, which every grant rewrites.
CREATE TABLE meta (
  one            INTEGER PRIMARY KEY CHECK (one = 1),
  clock          INTEGER NOT NULL,  -- the clock that the deadlines below run on; 0: none yet
  fence_last     INTEGER NOT NULL,  -- the highest fence granted, as far as the file remembers
  fence_reserved INTEGER NOT NULL,  -- durable: no fence above this was ever granted
  synced_commits INTEGER NOT NULL,  -- rises with each commit that must reach the disk
  authority      TEXT    NOT NULL   -- UUID of this file's fence sequence
);

-- Every clock this file was ever used under.
CREATE TABLE clocks (
  clock          INTEGER PRIMARY KEY,
  boot_id        TEXT    NOT NULL,
  time_namespace INTEGER NOT NULL,
  adopted_at_ms  INTEGER NOT NULL,  -- wall clock, for people
  UNIQUE (boot_id, time_namespace)
);

-- One row per held lock. A row past its deadline counts as absent, whether or not it was deleted.
CREATE TABLE locks (
  key            BLOB    PRIMARY KEY,  -- UTF-8; a blob because a key may contain U+0000
  id             TEXT    NOT NULL,
  fence          INTEGER NOT NULL,
  deadline_ms    INTEGER NOT NULL,  -- on meta.clock: this decides
  ttl_ms         INTEGER NOT NULL,
  acquired_at_ms INTEGER NOT NULL,  -- wall clock, for people
  expires_at_ms  INTEGER NOT NULL,  -- wall clock, for people and for restamping after a reboot
  durable        INTEGER NOT NULL   -- 0: held by a guard, ends with this boot of the machine
) WITHOUT ROWID;

CREATE UNIQUE INDEX locks_by_id ON locks (id);
