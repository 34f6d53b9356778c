ALTER TABLE loyalty_account ADD COLUMN status VARCHAR(20) NOT NULL DEFAULT 'active';
