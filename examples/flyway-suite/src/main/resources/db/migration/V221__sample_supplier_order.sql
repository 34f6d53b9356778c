INSERT INTO supplier_order (name) VALUES ('sample');
