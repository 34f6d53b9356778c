INSERT INTO supplier (name) VALUES ('sample');
