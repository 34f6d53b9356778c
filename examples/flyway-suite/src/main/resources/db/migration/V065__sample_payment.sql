INSERT INTO payment (name) VALUES ('sample');
