ALTER TABLE loyalty_account DROP COLUMN is_draft;
