DELETE FROM cart_item WHERE name = 'sample';
