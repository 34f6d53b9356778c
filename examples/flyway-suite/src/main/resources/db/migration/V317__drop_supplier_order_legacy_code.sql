ALTER TABLE supplier_order DROP COLUMN legacy_code;
