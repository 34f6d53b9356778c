ALTER TABLE role_grant DROP COLUMN is_draft;
