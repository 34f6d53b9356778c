ALTER TABLE supplier_order DROP COLUMN is_draft;
