INSERT INTO loyalty_entry (name) VALUES ('sample');
