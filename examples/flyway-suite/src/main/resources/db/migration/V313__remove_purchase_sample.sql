DELETE FROM purchase WHERE name = 'sample';
