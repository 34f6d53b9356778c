ALTER TABLE supplier_order ADD COLUMN status VARCHAR(20) NOT NULL DEFAULT 'active';
