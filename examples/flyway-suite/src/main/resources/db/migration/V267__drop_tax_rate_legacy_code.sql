ALTER TABLE tax_rate DROP COLUMN legacy_code;
