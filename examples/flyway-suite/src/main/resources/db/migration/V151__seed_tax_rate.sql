INSERT INTO tax_rate (name) VALUES ('standard');
INSERT INTO tax_rate (name) VALUES ('reduced');
INSERT INTO tax_rate (name) VALUES ('zero');
