ALTER TABLE purchase_item DROP COLUMN is_draft;
