ALTER TABLE loyalty_entry DROP COLUMN is_draft;
