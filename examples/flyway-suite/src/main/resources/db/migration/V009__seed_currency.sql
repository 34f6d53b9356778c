INSERT INTO currency (name) VALUES ('EUR');
INSERT INTO currency (name) VALUES ('USD');
INSERT INTO currency (name) VALUES ('GBP');
INSERT INTO currency (name) VALUES ('CHF');
INSERT INTO currency (name) VALUES ('JPY');
