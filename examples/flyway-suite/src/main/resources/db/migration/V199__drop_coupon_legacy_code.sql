ALTER TABLE coupon DROP COLUMN legacy_code;
