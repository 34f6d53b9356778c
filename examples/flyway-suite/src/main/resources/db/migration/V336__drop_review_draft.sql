ALTER TABLE review DROP COLUMN is_draft;
