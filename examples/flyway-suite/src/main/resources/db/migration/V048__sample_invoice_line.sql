INSERT INTO invoice_line (name) VALUES ('sample');
