-- Version 3. docs/internals/sqlite.md says what each column means and which promises rest on it.

-- One row, on a page of its own.
CREATE TABLE closing (
  one           INTEGER PRIMARY KEY CHECK (one = 1),
  state         TEXT    NOT NULL,  -- 'closed cleanly', or 'open or killed'
  fence_in_file INTEGER NOT NULL   -- no fence above this is granted; fence_reserved reached it in the file itself
);

-- 1: the boot id is the kernel's own; 0: a container's; null: an older build did not say.
ALTER TABLE clocks ADD COLUMN is_kernels INTEGER;
