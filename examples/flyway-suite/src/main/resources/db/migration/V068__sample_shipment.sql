INSERT INTO shipment (name) VALUES ('sample');
