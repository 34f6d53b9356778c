ALTER TABLE campaign DROP COLUMN is_draft;
