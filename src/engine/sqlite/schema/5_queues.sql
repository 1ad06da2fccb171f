-- Version 5 adds queues. docs/internals/sqlite.md says what each column means.

-- One row per record that was created for a queue. It is deleted with its record.
CREATE TABLE queued (
  record              INTEGER PRIMARY KEY,  -- records.record
  queue               BLOB    NOT NULL,  -- records.owner
  name                BLOB    NOT NULL,  -- records.task
  place               INTEGER NOT NULL,  -- 0: delayed, 1: ready, 2: leased, 3: exhausted, 4: has left the queue,
                                         -- 5: parked, 6: has left it as a dead letter
  priority            INTEGER NOT NULL,
  sequence            INTEGER NOT NULL,  -- the place among the ready rows of a priority, and among exhausted ones
  due_at_ms           INTEGER NOT NULL,  -- wall clock
  fails_at_ms         INTEGER NOT NULL,  -- wall clock
  lease_deadline_ms   INTEGER NOT NULL,  -- on meta.clock: this decides; 0 unless leased
  lease_ms            INTEGER NOT NULL,  -- the length of the lease, from when it was granted or renewed
  lease_expires_at_ms INTEGER NOT NULL,  -- wall clock, for people and for another clock
  attempt_deadline_ms INTEGER NOT NULL,  -- on meta.clock: no renewal goes beyond this; 0: no limit
  claimed_at_ms       INTEGER NOT NULL,  -- wall clock, for people
  attempts            INTEGER NOT NULL,
  deaths              INTEGER NOT NULL,
  max_attempts        INTEGER NOT NULL,
  not_before_ms       INTEGER,
  max_age_ms          INTEGER NOT NULL,
  attempt_limit_ms    INTEGER NOT NULL,
  retention_ms        INTEGER NOT NULL,
  worker              BLOB    NOT NULL,
  failed_retention_ms INTEGER NOT NULL,
  limit_key           BLOB,              -- null: none
  key_limit           INTEGER NOT NULL,
  died_at_ms          INTEGER NOT NULL,  -- wall clock; 0 unless it is a dead letter
  worker_mark         INTEGER NOT NULL DEFAULT 0  -- of the process of the lease (waiting/process_marks.hpp); 0: none
);

-- A row is in one of these, or has left the queue: so no order grows with the rows that are finished. A leased row
-- with a limit key is in two.
CREATE INDEX queued_delayed ON queued (queue, due_at_ms, name) WHERE place = 0;
CREATE INDEX queued_ready ON queued (queue, priority DESC, sequence) WHERE place = 1;
CREATE INDEX queued_leased ON queued (queue, lease_deadline_ms, name) WHERE place = 2;
CREATE INDEX queued_exhausted ON queued (queue, sequence) WHERE place = 3;
CREATE INDEX queued_leased_by_key ON queued (queue, limit_key) WHERE place = 2 AND limit_key IS NOT NULL;
CREATE INDEX queued_parked ON queued (queue, limit_key, priority DESC, sequence) WHERE place = 5;
CREATE INDEX queued_dead ON queued (queue, died_at_ms, name) WHERE place = 6;

-- The settings of each queue, its last sequence number, and the number of its rows in each place, so that no
-- query counts them. Triggers keep it right, and delete a row that says nothing.
CREATE TABLE queues (
  queue      BLOB    PRIMARY KEY,
  sequence   INTEGER NOT NULL DEFAULT 0,
  paused     INTEGER NOT NULL DEFAULT 0,
  max_leased INTEGER,  -- null: any number
  delayed    INTEGER NOT NULL DEFAULT 0,
  ready      INTEGER NOT NULL DEFAULT 0,
  leased     INTEGER NOT NULL DEFAULT 0,
  exhausted  INTEGER NOT NULL DEFAULT 0,
  parked     INTEGER NOT NULL DEFAULT 0,
  dead       INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TRIGGER queued_added AFTER INSERT ON queued BEGIN
  INSERT INTO queues (queue, sequence, delayed, ready, leased, exhausted, parked, dead)
    VALUES (new.queue, new.sequence, new.place = 0, new.place = 1, new.place = 2, new.place = 3, new.place = 5,
      new.place = 6)
    ON CONFLICT (queue) DO UPDATE SET sequence = max(sequence, excluded.sequence),
      delayed = delayed + excluded.delayed, ready = ready + excluded.ready,
      leased = leased + excluded.leased, exhausted = exhausted + excluded.exhausted,
      parked = parked + excluded.parked, dead = dead + excluded.dead;
END;

CREATE TRIGGER queued_moved AFTER UPDATE OF place, sequence ON queued
  WHEN old.place <> new.place OR old.sequence <> new.sequence BEGIN
  UPDATE queues SET sequence = max(sequence, new.sequence),
      delayed = delayed - (old.place = 0) + (new.place = 0), ready = ready - (old.place = 1) + (new.place = 1),
      leased = leased - (old.place = 2) + (new.place = 2),
      exhausted = exhausted - (old.place = 3) + (new.place = 3),
      parked = parked - (old.place = 5) + (new.place = 5), dead = dead - (old.place = 6) + (new.place = 6)
    WHERE queue = new.queue;
  DELETE FROM queues WHERE queue = new.queue AND paused = 0 AND max_leased IS NULL AND delayed = 0 AND ready = 0
    AND leased = 0 AND exhausted = 0 AND parked = 0 AND dead = 0;
END;

CREATE TRIGGER queued_removed AFTER DELETE ON queued BEGIN
  UPDATE queues SET delayed = delayed - (old.place = 0), ready = ready - (old.place = 1),
      leased = leased - (old.place = 2), exhausted = exhausted - (old.place = 3),
      parked = parked - (old.place = 5), dead = dead - (old.place = 6)
    WHERE queue = old.queue;
  DELETE FROM queues WHERE queue = old.queue AND paused = 0 AND max_leased IS NULL AND delayed = 0 AND ready = 0
    AND leased = 0 AND exhausted = 0 AND parked = 0 AND dead = 0;
END;

-- A row that is deleted makes room for a parked one of its key, as makes_room() in core/queue_decisions.hpp says for
-- one that moves. Rows are deleted in many ways; this covers all.
CREATE TRIGGER queued_makes_room AFTER DELETE ON queued
  WHEN old.limit_key IS NOT NULL AND (old.place = 1 OR old.place = 2) BEGIN
  UPDATE queued SET place = 1 WHERE record = (SELECT record FROM queued
    WHERE queue = old.queue AND limit_key = old.limit_key AND place = 5 ORDER BY priority DESC, sequence LIMIT 1);
END;

CREATE TRIGGER queued_record_removed AFTER DELETE ON records BEGIN
  DELETE FROM queued WHERE record = old.record;
END;

-- The output of the commands that work on a record. It is deleted with its record.
CREATE TABLE output_runs (
  record    INTEGER NOT NULL,  -- records.record
  run       INTEGER NOT NULL,
  writer    BLOB    NOT NULL,  -- authority, lock and fence of the run
  fence     INTEGER NOT NULL,
  attempt   INTEGER NOT NULL,
  complete  INTEGER NOT NULL,
  out_begin INTEGER NOT NULL,  -- stdout: the position of the first byte that is kept
  out_end   INTEGER NOT NULL,
  err_begin INTEGER NOT NULL,
  err_end   INTEGER NOT NULL,
  PRIMARY KEY (record, run)
) WITHOUT ROWID;

CREATE TABLE output_chunks (
  record INTEGER NOT NULL,
  run    INTEGER NOT NULL,
  stream INTEGER NOT NULL,  -- 0: stdout, 1: stderr
  chunk  INTEGER NOT NULL,
  bytes  BLOB    NOT NULL,
  PRIMARY KEY (record, run, stream, chunk)
) WITHOUT ROWID;

CREATE TRIGGER output_record_removed AFTER DELETE ON records BEGIN
  DELETE FROM output_chunks WHERE record = old.record;
  DELETE FROM output_runs WHERE record = old.record;
END;
