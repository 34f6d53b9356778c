ALTER TABLE coupon DROP COLUMN is_draft;
