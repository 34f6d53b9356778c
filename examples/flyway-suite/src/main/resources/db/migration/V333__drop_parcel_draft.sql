ALTER TABLE parcel DROP COLUMN is_draft;
