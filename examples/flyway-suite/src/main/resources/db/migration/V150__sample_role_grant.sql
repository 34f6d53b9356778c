INSERT INTO role_grant (name) VALUES ('sample');
