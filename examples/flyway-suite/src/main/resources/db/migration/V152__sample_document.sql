INSERT INTO document (name) VALUES ('sample');
