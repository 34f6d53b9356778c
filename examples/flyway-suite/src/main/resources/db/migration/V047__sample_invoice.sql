INSERT INTO invoice (name) VALUES ('sample');
