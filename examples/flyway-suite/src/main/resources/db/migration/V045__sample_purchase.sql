INSERT INTO purchase (name) VALUES ('sample');
