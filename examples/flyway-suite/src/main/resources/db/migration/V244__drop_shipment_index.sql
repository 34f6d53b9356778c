DROP INDEX ix_shipment_name ON shipment;
