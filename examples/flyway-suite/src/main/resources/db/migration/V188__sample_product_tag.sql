INSERT INTO product_tag (name) VALUES ('sample');
