DELETE FROM review WHERE name = 'sample';
