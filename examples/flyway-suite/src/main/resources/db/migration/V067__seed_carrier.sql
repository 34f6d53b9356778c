INSERT INTO carrier (name) VALUES ('Falcon');
INSERT INTO carrier (name) VALUES ('Heron');
INSERT INTO carrier (name) VALUES ('Swift');
