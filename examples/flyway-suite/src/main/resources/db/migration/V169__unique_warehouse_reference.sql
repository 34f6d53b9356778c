ALTER TABLE warehouse ADD COLUMN reference VARCHAR(36) NULL;
CREATE UNIQUE INDEX ux_warehouse_reference ON warehouse (reference);
