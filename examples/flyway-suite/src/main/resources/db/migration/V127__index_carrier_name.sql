CREATE INDEX ix_carrier_name ON carrier (name, status);
