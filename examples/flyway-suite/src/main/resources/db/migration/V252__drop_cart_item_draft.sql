ALTER TABLE cart_item DROP COLUMN is_draft;
