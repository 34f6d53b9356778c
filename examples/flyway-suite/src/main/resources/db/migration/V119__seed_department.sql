INSERT INTO department (name) VALUES ('Accounting');
INSERT INTO department (name) VALUES ('Purchasing');
INSERT INTO department (name) VALUES ('Sales');
INSERT INTO department (name) VALUES ('Support');
