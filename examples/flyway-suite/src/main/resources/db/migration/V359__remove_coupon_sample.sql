DELETE FROM coupon WHERE name = 'sample';
