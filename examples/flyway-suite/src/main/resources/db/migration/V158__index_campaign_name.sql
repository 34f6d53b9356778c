CREATE INDEX ix_campaign_name ON campaign (name, status);
