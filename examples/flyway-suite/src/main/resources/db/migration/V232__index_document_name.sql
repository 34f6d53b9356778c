CREATE INDEX ix_document_name ON document (name, status);
