DELETE FROM warehouse WHERE name = 'sample';
