ALTER TABLE price DROP COLUMN is_draft;
