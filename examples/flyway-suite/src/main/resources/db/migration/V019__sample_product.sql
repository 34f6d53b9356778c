INSERT INTO product (name) VALUES ('sample');
