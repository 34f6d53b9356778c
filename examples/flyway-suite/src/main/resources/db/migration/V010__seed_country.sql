INSERT INTO country (name) VALUES ('Austria');
INSERT INTO country (name) VALUES ('Belgium');
INSERT INTO country (name) VALUES ('Denmark');
INSERT INTO country (name) VALUES ('France');
INSERT INTO country (name) VALUES ('Italy');
INSERT INTO country (name) VALUES ('Japan');
INSERT INTO country (name) VALUES ('Spain');
INSERT INTO country (name) VALUES ('Sweden');
