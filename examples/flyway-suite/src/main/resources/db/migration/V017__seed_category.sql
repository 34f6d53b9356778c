INSERT INTO category (name) VALUES ('Books');
INSERT INTO category (name) VALUES ('Games');
INSERT INTO category (name) VALUES ('Garden');
INSERT INTO category (name) VALUES ('Kitchen');
INSERT INTO category (name) VALUES ('Music');
INSERT INTO category (name) VALUES ('Office');
