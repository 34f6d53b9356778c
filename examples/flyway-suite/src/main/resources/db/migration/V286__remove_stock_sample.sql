DELETE FROM stock WHERE name = 'sample';
