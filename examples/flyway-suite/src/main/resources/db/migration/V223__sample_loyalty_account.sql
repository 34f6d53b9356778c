INSERT INTO loyalty_account (name) VALUES ('sample');
