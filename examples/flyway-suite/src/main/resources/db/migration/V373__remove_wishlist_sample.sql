DELETE FROM wishlist WHERE name = 'sample';
