select (select max(version) from {schema}.migrations), pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
    (select id from {schema}.deployment)
