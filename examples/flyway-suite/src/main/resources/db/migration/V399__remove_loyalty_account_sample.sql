DELETE FROM loyalty_account WHERE name = 'sample';
