-- Version 4. docs/internals/sqlite.md says what each column means.

-- The label of the lock's holder, for people; null: none, or an older build wrote the row. A blob because it may
-- contain U+0000.
ALTER TABLE locks ADD COLUMN holder BLOB;
