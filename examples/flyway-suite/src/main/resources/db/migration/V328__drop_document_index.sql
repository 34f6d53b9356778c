DROP INDEX ix_document_name ON document;
