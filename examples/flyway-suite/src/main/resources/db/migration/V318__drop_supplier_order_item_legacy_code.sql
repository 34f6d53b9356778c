ALTER TABLE supplier_order_item DROP COLUMN legacy_code;
