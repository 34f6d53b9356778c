INSERT INTO message (name) VALUES ('sample');
