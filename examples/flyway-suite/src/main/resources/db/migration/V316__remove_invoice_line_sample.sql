DELETE FROM invoice_line WHERE name = 'sample';
