INSERT INTO customer (name) VALUES ('sample');
