DROP INDEX ix_coupon_name ON coupon;
