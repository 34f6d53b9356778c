INSERT INTO stock (name) VALUES ('sample');
