INSERT INTO tag (name) VALUES ('new');
INSERT INTO tag (name) VALUES ('sale');
INSERT INTO tag (name) VALUES ('fragile');
INSERT INTO tag (name) VALUES ('gift');
