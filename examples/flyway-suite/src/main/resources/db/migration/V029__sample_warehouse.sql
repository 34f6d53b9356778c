INSERT INTO warehouse (name) VALUES ('sample');
