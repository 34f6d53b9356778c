DELETE FROM role_grant WHERE name = 'sample';
