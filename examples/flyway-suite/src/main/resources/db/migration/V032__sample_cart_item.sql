INSERT INTO cart_item (name) VALUES ('sample');
