ALTER TABLE supplier_order_item ADD COLUMN status VARCHAR(20) NOT NULL DEFAULT 'active';
