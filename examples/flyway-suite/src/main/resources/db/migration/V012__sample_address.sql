INSERT INTO address (name) VALUES ('sample');
