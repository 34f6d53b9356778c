INSERT INTO wishlist_item (name) VALUES ('sample');
