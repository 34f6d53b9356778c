INSERT INTO employee (name) VALUES ('sample');
