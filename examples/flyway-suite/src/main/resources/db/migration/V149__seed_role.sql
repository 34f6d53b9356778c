INSERT INTO role (name) VALUES ('admin');
INSERT INTO role (name) VALUES ('clerk');
INSERT INTO role (name) VALUES ('guest');
