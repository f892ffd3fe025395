-- No lock: the primary key is the fence. The run's row must be there; a session may have been erased.
insert into {schema}.events (run_id, seq, type, data, first_index, frames, at)
select $1, $2, $3, $4, $5, $6, clock_timestamp() where exists (select 1 from {schema}.runs where run_id = $1)
returning {schema}.millis_1(at)
