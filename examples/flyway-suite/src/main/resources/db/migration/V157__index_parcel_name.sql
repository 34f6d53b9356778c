CREATE INDEX ix_parcel_name ON parcel (name, status);
