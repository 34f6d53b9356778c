DELETE FROM product_tag WHERE name = 'sample';
