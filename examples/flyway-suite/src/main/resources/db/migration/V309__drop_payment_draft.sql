ALTER TABLE payment DROP COLUMN is_draft;
