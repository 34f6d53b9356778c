ALTER TABLE shipment DROP COLUMN legacy_code;
