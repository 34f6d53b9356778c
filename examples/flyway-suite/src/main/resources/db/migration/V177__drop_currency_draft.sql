ALTER TABLE currency DROP COLUMN is_draft;
