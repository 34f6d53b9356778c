INSERT INTO price (name) VALUES ('sample');
