INSERT INTO purchase_item (name) VALUES ('sample');
