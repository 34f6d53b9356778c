INSERT INTO coupon (name) VALUES ('sample');
