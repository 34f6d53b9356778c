DELETE FROM cart WHERE name = 'sample';
