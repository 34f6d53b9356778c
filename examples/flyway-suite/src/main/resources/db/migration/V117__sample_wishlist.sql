INSERT INTO wishlist (name) VALUES ('sample');
