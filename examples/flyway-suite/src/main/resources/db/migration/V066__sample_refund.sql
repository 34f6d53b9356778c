INSERT INTO refund (name) VALUES ('sample');
