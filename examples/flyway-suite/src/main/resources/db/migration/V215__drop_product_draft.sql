ALTER TABLE product DROP COLUMN is_draft;
