ALTER TABLE shipment DROP COLUMN is_draft;
