INSERT INTO cart (name) VALUES ('sample');
