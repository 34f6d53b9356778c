CREATE INDEX ix_shipment_name ON shipment (name, status);
