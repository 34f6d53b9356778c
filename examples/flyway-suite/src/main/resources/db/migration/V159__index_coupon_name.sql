CREATE INDEX ix_coupon_name ON coupon (name, status);
