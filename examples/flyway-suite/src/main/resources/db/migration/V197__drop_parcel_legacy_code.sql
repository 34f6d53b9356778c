ALTER TABLE parcel DROP COLUMN legacy_code;
