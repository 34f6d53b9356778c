ALTER TABLE purchase_item DROP COLUMN legacy_code;
