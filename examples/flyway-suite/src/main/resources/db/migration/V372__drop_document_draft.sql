ALTER TABLE document DROP COLUMN is_draft;
