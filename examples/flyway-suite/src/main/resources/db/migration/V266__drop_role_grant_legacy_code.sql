ALTER TABLE role_grant DROP COLUMN legacy_code;
