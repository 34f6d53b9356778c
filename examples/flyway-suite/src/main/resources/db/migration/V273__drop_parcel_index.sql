DROP INDEX ix_parcel_name ON parcel;
