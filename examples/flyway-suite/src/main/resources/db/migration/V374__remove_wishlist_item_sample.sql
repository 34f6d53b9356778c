DELETE FROM wishlist_item WHERE name = 'sample';
