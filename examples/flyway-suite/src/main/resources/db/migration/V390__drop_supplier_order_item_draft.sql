ALTER TABLE supplier_order_item DROP COLUMN is_draft;
