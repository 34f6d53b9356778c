INSERT INTO message_template (name) VALUES ('welcome');
INSERT INTO message_template (name) VALUES ('dispatched');
INSERT INTO message_template (name) VALUES ('refunded');
INSERT INTO message_template (name) VALUES ('reminder');
