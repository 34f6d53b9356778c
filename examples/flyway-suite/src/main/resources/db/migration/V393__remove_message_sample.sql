DELETE FROM message WHERE name = 'sample';
