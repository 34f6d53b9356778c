DELETE FROM supplier WHERE name = 'sample';
