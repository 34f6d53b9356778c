INSERT INTO campaign (name) VALUES ('spring');
INSERT INTO campaign (name) VALUES ('summer');
