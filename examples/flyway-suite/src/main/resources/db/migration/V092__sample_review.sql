INSERT INTO review (name) VALUES ('sample');
