DELETE FROM product WHERE name = 'sample';
