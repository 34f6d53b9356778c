DROP INDEX ix_campaign_name ON campaign;
