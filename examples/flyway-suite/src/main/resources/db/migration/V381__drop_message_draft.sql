ALTER TABLE message DROP COLUMN is_draft;
